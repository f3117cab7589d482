#pragma once

// Behind a lane_instructions_*.h: the table of the file of resize_passes.h that includes it.

#include "data/augment/resize_passes/byte_pass_functions.h"
#include "data/augment/resize_passes/short_pass_functions.h"

namespace tandem {
namespace {

constexpr ResizePasses own_passes(const char* instructions) {
  return {.instructions = instructions,
          .shorts_to_floats = resize_shorts_to_floats,
          .shorts_to_bytes = resize_shorts_to_bytes,
          .interleave_rows = interleave_byte_rows,
          .filter_pixels = filter_byte_pixels,
          .filter_columns = filter_byte_columns};
}

}  // namespace
}  // namespace tandem
