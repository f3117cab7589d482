#include <algorithm>
#include <array>

#include "layers/channel_scale.h"

namespace tandem {

void channel_scale_forward(CpuContext& context, const ChannelScaleShape& shape, const Tensor& input,
                           const Tensor& scale, const Tensor& output) {
  const auto* all_x = input.data<float>();
  const auto* all_s = scale.data<float>();
  auto* all_y = output.data<float>();
  const std::int64_t channels = shape.channels;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.batch * shape.pixels; ++row) {
    const float* x = all_x + row * channels;
    const float* s = all_s + row / shape.pixels * channels;
    float* y = all_y + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y[c] = x[c] * s[c];
  }
}

namespace {

/// Channels whose sums one thread keeps at a time.
constexpr std::int64_t block = 64;

struct Pointers {
  const float* input;
  const float* scale;
  const float* output_gradient;
  float* input_gradient;
  float* scale_gradient;
  bool add_to_input;
  bool add_to_scale;
};

Pointers pointers_of(const ChannelScaleBackward& args) {
  const auto data_or_null = [](const Tensor& tensor) {
    return tensor.defined() ? tensor.data<float>() : nullptr;
  };
  return {.input = args.input.data<float>(),
          .scale = args.scale.data<float>(),
          .output_gradient = args.output_gradient.data<float>(),
          .input_gradient = data_or_null(args.input_gradient),
          .scale_gradient = data_or_null(args.scale_gradient),
          .add_to_input = args.add_to_input,
          .add_to_scale = args.add_to_scale};
}

/// Channels [first, first + count) of image n.
void backward_block(const ChannelScaleShape& shape, const Pointers& a, std::int64_t n,
                    std::int64_t first, std::int64_t count) {
  const std::int64_t channels = shape.channels;
  std::array<float, block> sums{};
  float* sum = sums.data();
  const float* s = a.scale + n * channels + first;
  for (std::int64_t p = 0; p < shape.pixels; ++p) {
    const std::int64_t at = (n * shape.pixels + p) * channels + first;
    const float* x = a.input + at;
    const float* dy = a.output_gradient + at;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) sum[c] += dy[c] * x[c];
    if (a.input_gradient == nullptr) continue;
    float* dx = a.input_gradient + at;
    if (a.add_to_input) {
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) dx[c] += dy[c] * s[c];
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) dx[c] = dy[c] * s[c];
    }
  }
  if (a.scale_gradient == nullptr) return;
  float* ds = a.scale_gradient + n * channels + first;
  for (std::int64_t c = 0; c < count; ++c) ds[c] = (a.add_to_scale ? ds[c] : 0.0F) + sum[c];
}

}  // namespace

void channel_scale_backward(CpuContext& context, const ChannelScaleShape& shape,
                            const ChannelScaleBackward& args) {
  const std::int64_t blocks = (shape.channels + block - 1) / block;
  const Pointers pointers = pointers_of(args);
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t part = 0; part < shape.batch * blocks; ++part) {
    const std::int64_t first = part % blocks * block;
    backward_block(shape, pointers, part / blocks, first, std::min(block, shape.channels - first));
  }
}

}  // namespace tandem
