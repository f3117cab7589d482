#include "layers/convolution/depthwise_conv_cpu.h"

#include <algorithm>
#include <array>

#include "device/arena.h"
#include "layers/activation_cpu.h"
#include "layers/convolution/depthwise_tiles.h"

namespace tandem {
namespace {

constexpr std::int64_t largest_kernel = 7;

using Tap = DepthwiseConvolution::Tap;
using Run = DepthwiseConvolution::Run;
using Gather = DepthwiseConvolution::Gather;

/// What meets element `at` of the output: input at * stride + f * dilation - padding.
std::vector<Tap> forward_taps(const Window& window, std::int64_t at, std::int64_t extent) {
  std::vector<Tap> taps;
  for (std::int64_t f = 0; f < window.kernel; ++f) {
    const std::int64_t source = at * window.stride + f * window.dilation - window.padding;
    if (source >= 0 && source < extent) taps.push_back({f, source});
  }
  return taps;
}

/// What element `at` of the input went into: outputs whose window holds it.
std::vector<Tap> backward_taps(const Window& window, std::int64_t at, std::int64_t extent) {
  std::vector<Tap> taps;
  for (std::int64_t f = 0; f < window.kernel; ++f) {
    const std::int64_t reach = at + window.padding - f * window.dilation;
    if (reach < 0 || reach % window.stride != 0) continue;
    const std::int64_t source = reach / window.stride;
    if (source < extent) taps.push_back({f, source});
  }
  return taps;
}

/// Whether `next` is `taps` moved on by `step`.
bool follows(const std::vector<Tap>& taps, const std::vector<Tap>& next, std::int64_t step) {
  return std::ranges::equal(taps, next, [&](const Tap& a, const Tap& b) {
    return a.filter == b.filter && a.source + step == b.source;
  });
}

/// Cuts every `step`-th of `columns` into runs with the same taps.
void append_runs(const std::vector<std::vector<Tap>>& taps, std::int64_t phase, std::int64_t step,
                 std::int64_t source_step, std::vector<Run>& runs) {
  bool open = false;
  for (std::size_t at = static_cast<std::size_t>(phase); at < taps.size();
       at += static_cast<std::size_t>(step)) {
    if (open && follows(runs.back().taps, taps[at], runs.back().count * source_step)) {
      ++runs.back().count;
      continue;
    }
    runs.push_back({static_cast<std::int64_t>(at), 1, step, source_step, taps[at]});
    open = true;
  }
}

template <typename TapsOf>
Gather make_gather(const Window& window, const Shape& target, const Shape& source, bool forward,
                   TapsOf&& taps_of) {
  Gather gather{.rows = target[1],
                .columns = target[2],
                .source_rows = source[1],
                .source_columns = source[2],
                .row_taps = {},
                .runs = {}};
  for (std::int64_t i = 0; i < target[1]; ++i) {
    gather.row_taps.push_back(taps_of(window, i, source[1]));
  }
  std::vector<std::vector<Tap>> columns;
  for (std::int64_t j = 0; j < target[2]; ++j) columns.push_back(taps_of(window, j, source[2]));
  // Backward, pixels a stride apart meet the same columns of the filter, one output further on.
  const std::int64_t phases = forward ? 1 : window.stride;
  for (std::int64_t phase = 0; phase < phases; ++phase) {
    append_runs(columns, phase, phases, forward ? window.stride : 1, gather.runs);
  }
  return gather;
}

}  // namespace

bool DepthwiseConvolution::supports(const Conv2dOptions& options, const Shape& input) {
  return options.groups > 1 && options.groups == input[3] && options.out_channels == input[3] &&
         options.window.kernel <= largest_kernel;
}

DepthwiseConvolution::DepthwiseConvolution(CpuContext& context, const Conv2dOptions& options,
                                           const Shape& input, const Shape& output,
                                           const Mode& mode)
    : context_(&context),
      mode_(mode),
      window_(options.window),
      batch_(input[0]),
      channels_(input[3]),
      forward_(make_gather(window_, output, input, true, &forward_taps)) {
  if (mode.input_gradient) backward_ = make_gather(window_, input, output, false, &backward_taps);
}

std::size_t DepthwiseConvolution::forward_scratch() const {
  const std::int64_t area = window_.kernel * window_.kernel;
  return Arena::align(static_cast<std::size_t>(area * channels_) * sizeof(float));
}

std::size_t DepthwiseConvolution::backward_scratch() const {
  // The last block of channels may overlap the one before it and sums in a place of its own.
  const std::int64_t area = window_.kernel * window_.kernel;
  return Arena::align(static_cast<std::size_t>(area * (channels_ + depthwise::widest)) *
                      sizeof(float));
}

void DepthwiseConvolution::transpose_weights(const float* weight, float* transposed) const {
  const std::int64_t area = window_.kernel * window_.kernel;
  for (std::int64_t c = 0; c < channels_; ++c) {
    for (std::int64_t p = 0; p < area; ++p) transposed[p * channels_ + c] = weight[c * area + p];
  }
}

void DepthwiseConvolution::forward(const float* input, const float* weight, const float* bias,
                                   float* output, std::byte* scratch) {
  auto* weights = reinterpret_cast<float*>(scratch);
  transpose_weights(weight, weights);
  gather_rows(forward_, input, weights, bias, mode_.add_to_output, mode_.activation, output);
}

void DepthwiseConvolution::backward_data(const float* output_gradient, const float* weight,
                                         float* input_gradient, std::byte* scratch) {
  auto* weights = reinterpret_cast<float*>(scratch);
  transpose_weights(weight, weights);
  gather_rows(backward_, output_gradient, weights, nullptr, false, Activation::none,
              input_gradient);
}

void DepthwiseConvolution::gather_rows(const Gather& gather, const float* source,
                                       const float* weights, const float* bias, bool add,
                                       Activation activation, float* target) const {
  const std::int64_t row_elements = gather.columns * channels_;
  const std::int64_t source_plane = gather.source_rows * gather.source_columns * channels_;
#pragma omp parallel for schedule(static) num_threads(context_->threads())
  for (std::int64_t row = 0; row < batch_ * gather.rows; ++row) {
    const float* plane = source + row / gather.rows * source_plane;
    float* out = target + row * row_elements;
    const std::vector<Tap>& rows = gather.row_taps[static_cast<std::size_t>(row % gather.rows)];
    for (const Run& run : gather.runs) {
      depthwise::TapList taps;
      for (const Tap& r : rows) {
        for (const Tap& s : run.taps) {
          taps.add((r.source * gather.source_columns + s.source) * channels_,
                   (r.filter * window_.kernel + s.filter) * channels_);
        }
      }
      depthwise::gather_run({.source = plane,
                             .source_step = run.source_step * channels_,
                             .weights = weights,
                             .bias = bias,
                             .target = out + run.first * channels_,
                             .target_step = run.step * channels_,
                             .count = run.count,
                             .channels = channels_,
                             .add = add},
                            taps);
    }
    with_activation(activation, [&](auto chosen) {
      constexpr Activation kind = decltype(chosen)::value;
      if constexpr (kind != Activation::none) {
#pragma omp simd
        for (std::int64_t i = 0; i < row_elements; ++i) out[i] = activate<kind>(out[i]);
      }
    });
  }
}

void DepthwiseConvolution::backward_weights(const float* input, const float* output_gradient,
                                            float* weight_gradient, float* bias_gradient,
                                            std::byte* scratch) {
  const depthwise::WeightGradient sums{.input = input,
                                       .output_gradient = output_gradient,
                                       .partial = reinterpret_cast<float*>(scratch),
                                       .weight_gradient = weight_gradient,
                                       .bias_gradient = bias_gradient,
                                       .window = window_,
                                       .batch = batch_,
                                       .channels = channels_,
                                       .rows = forward_.rows,
                                       .columns = forward_.columns,
                                       .input_rows = forward_.source_rows,
                                       .input_columns = forward_.source_columns};
  depthwise::weight_gradient(*context_, sums);
}

}  // namespace tandem
