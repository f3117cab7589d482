#include <array>

#include "data/augment/resize_passes/resize_passes.h"

namespace tandem {

std::span<const ResizePasses> resize_passes() {
  static const std::array all{avx2_resize_passes, portable_resize_passes};
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return std::span(all).subspan(has_avx2 ? 0 : 1);
}

}  // namespace tandem
