#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/augment/resize_passes/vectors.h"
#include "data/image.h"

namespace tandem {

// The inner loops of resizing, compiled once for each set of instructions and chosen as the program
// runs, for a build for any processor would be two to three times as slow without. Each is a file
// of this folder; what it is made of, the *_functions.h and lanes, calls nothing that a file for
// other instructions may define too (inline functions, the standard library's among them), for the
// linker keeps one of all.

/// Sizes of a resize in 16-bit fixed point (augment/resample_short.h).
struct ShortSizes {
  static constexpr int strip = 16;  ///< output rows at a time: the lanes of a vector
  static constexpr int group = 32;  ///< columns (a pixel has three) that share two vectors
  static constexpr int pixels = 8;  ///< output pixels that are transposed back together
  static constexpr int most_taps = 8;
  static constexpr int one = 256;  ///< a level of 0 to 255, whose fraction is eight bits too
};

/// What its two passes go by. The caller owns what it points to.
struct ShortResizePlan {
  ImageView source;   ///< RGB, at least ShortSizes::group columns wide
  int height = 0;     ///< of the result, at least ShortSizes::strip
  int width = 0;      ///< at least ShortSizes::pixels
  int down_taps = 0;  ///< 1 to ShortSizes::most_taps
  int across_taps = 0;
  const int* down_first = nullptr;              ///< by output row: the first source row
  const std::uint32_t* down_weights = nullptr;  ///< down_taps for each, a 16-bit weight twice
  const int* across_first = nullptr;            ///< likewise by output column
  const std::uint32_t* across_weights = nullptr;
  /// Room for a vector a source column (three for each pixel).
  Short16* turned = nullptr;
  int lost = 0;  ///< what cut off products lose on average: half a unit each
};

/// Weights of a resize in 8 bits (augment/resample.h) are integers of so many fractional bits, as
/// Pillow's.
constexpr int filter_bits = 22;
constexpr std::int32_t filter_half = 1 << (filter_bits - 1);
/// Where two rows of RGB take turns: four values of a row, of which the last is anything, twice.
constexpr std::size_t interleaved_values = 8;

/// For some processors' instructions. All of them give the same values, but for the rounding of
/// floats' scaling where one fuses it.
struct ResizePasses {
  const char* instructions;  ///< "AVX2", or "portable"

  /// A value times scale, by channel, plus offset: height * width * 3 floats (HWC).
  void (*shorts_to_floats)(const ShortResizePlan& plan, const float* scale, const float* offset,
                           float* out);
  /// Rounded to levels: height * width * 3 bytes.
  void (*shorts_to_bytes)(const ShortResizePlan& plan, std::uint8_t* out);

  /// Two rows of RGB to interleaved_values for each of `width` pixels.
  void (*interleave_rows)(const std::uint8_t* in0, const std::uint8_t* in1, int width,
                          std::int32_t* out);
  /// `count` outputs of three values 0..255, and up to one value more, for each of the two rows;
  /// `weights`: `taps` for each output, four times; `first`: where its pixels begin.
  void (*filter_pixels)(const std::int32_t* pixels, const int* first, std::size_t count,
                        const std::int32_t* weights, int taps, std::int32_t* out0,
                        std::int32_t* out1);
  /// The weighted sum of `taps` rows, a byte each.
  void (*filter_columns)(const std::int32_t* const* rows, const std::int32_t* weights, int taps,
                         std::size_t count, std::uint8_t* out);
};

/// Those that this processor can run, the fastest first.
std::span<const ResizePasses> resize_passes();

// The list's members, by the files that a build has for its kind of processor.
extern const ResizePasses portable_resize_passes;
extern const ResizePasses avx2_resize_passes;  ///< x86-64's alone

}  // namespace tandem
