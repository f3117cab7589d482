#pragma once

#include <cstdint>

#include "data/augment/resample_float.h"
#include "data/augment/resize_passes/resize_passes.h"

namespace tandem {

/// Whether the functions below can do what is wanted: at least 16 rows of 8 pixels in colour, from
/// rows of at least 11, reduced by at most 3.5 along either axis.
bool fits_shorts(const ImageView& source, const FloatResize& wanted);

/// resize_to_floats() and resize_to_bytes() in 16-bit fixed point, eight bits of it fractional,
/// which leaves values within 0.05 of the real ones. `passes`: one of resize_passes().
void resize_shorts(const ImageView& source, const FloatResize& wanted, float* out,
                   const ResizePasses& passes = resize_passes().front());
void resize_shorts(const ImageView& source, const FloatResize& wanted, std::uint8_t* out,
                   const ResizePasses& passes = resize_passes().front());

}  // namespace tandem
