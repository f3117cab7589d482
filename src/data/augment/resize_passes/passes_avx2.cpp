// Compiled for AVX2, whatever the rest is compiled for.

#include "data/augment/resize_passes/lane_instructions_avx2.h"
// Behind it
#include "data/augment/resize_passes/byte_pass_functions.h"
#include "data/augment/resize_passes/short_pass_functions.h"

namespace tandem {

const ResizePasses avx2_resize_passes{.instructions = "AVX2",
                                      .shorts_to_floats = resize_shorts_to_floats,
                                      .shorts_to_bytes = resize_shorts_to_bytes,
                                      .interleave_rows = interleave_byte_rows,
                                      .filter_pixels = filter_byte_pixels,
                                      .filter_columns = filter_byte_columns};

}  // namespace tandem
