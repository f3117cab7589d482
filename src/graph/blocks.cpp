#include "graph/blocks.h"

#include <array>

#include "graph/inverted_residual_blocks.h"
#include "graph/mbconv_blocks.h"
#include "graph/residual_blocks.h"
#include "graph/shuffle_blocks.h"

namespace tandem {

std::span<const BlockKind> block_kinds() {
  static const std::array kinds{
      BlockKind{"basic_stage", &build_basic_stage},
      BlockKind{"bottleneck_stage", &build_bottleneck_stage},
      BlockKind{"inverted_residual_stage", &build_inverted_residual_stage},
      BlockKind{"mbconv_stage", &build_mbconv_stage},
      BlockKind{"shuffle_stage", &build_shuffle_stage},
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
