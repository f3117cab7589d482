#pragma once

#include <array>
#include <cstdint>

#include "device/cpu_context.h"
#include "layers/window.h"

// The innermost loops of depthwise convolutions. Included by .cpp files only.

namespace tandem::depthwise {

/// Channels that are worked on at once at most.
constexpr std::int64_t widest = 16;

/// Offsets of a pixel's taps, in elements from the run's source and from the weights.
struct TapList {
  static constexpr std::size_t most = 49;
  std::array<std::int64_t, most> source;
  std::array<std::int64_t, most> weight;
  std::size_t count = 0;

  void add(std::int64_t source_offset, std::int64_t weight_offset) {
    source[count] = source_offset;
    weight[count] = weight_offset;
    ++count;
  }
};

/// `count` pixels with the same taps: target = bias + sum over taps of source * weight, or target
/// += that with `add`. Steps are elements from one pixel to the next.
struct PixelRun {
  const float* source;
  std::int64_t source_step;
  const float* weights;
  const float* bias;  ///< may be null
  float* target;
  std::int64_t target_step;
  std::int64_t count;
  std::int64_t channels;
  bool add;
};
void gather_run(const PixelRun& run, const TapList& taps);

/// The gradient of the weights (C, R, S) and, unless null, of the bias (C).
struct WeightGradient {
  const float* input;            ///< (N, H, W, C)
  const float* output_gradient;  ///< (N, H', W', C)
  float* partial;                ///< R * S * (C + widest) elements
  float* weight_gradient;
  float* bias_gradient;
  Window window;
  std::int64_t batch;
  std::int64_t channels;
  std::int64_t rows, columns;  ///< H', W'
  std::int64_t input_rows, input_columns;
};
void weight_gradient(CpuContext& context, const WeightGradient& sums);

}  // namespace tandem::depthwise
