#include "graph/blocks.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "graph/residual_blocks.h"

namespace tandem {

std::span<const BlockKind> block_kinds() {
  static const std::array kinds{
      BlockKind{"basic_stage", &build_basic_stage},
      BlockKind{"bottleneck_stage", &build_bottleneck_stage},
  };
  return kinds;
}

const BlockKind* find_block_kind(std::string_view name) {
  for (const BlockKind& kind : block_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

}  // namespace tandem
