#include <algorithm>
#include <array>

#include "layers/channel_scale.h"

namespace tandem {

void channel_scale_forward(CpuContext& context, const ChannelScaleShape& shape, const float* input,
                           const float* scale, float* output) {
  const std::int64_t channels = shape.channels;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.batch * shape.pixels; ++row) {
    const float* x = input + row * channels;
    const float* s = scale + row / shape.pixels * channels;
    float* y = output + row * channels;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y[c] = x[c] * s[c];
  }
}

namespace {

/// Channels whose sums one thread keeps at a time.
constexpr std::int64_t block = 64;

/// Channels [first, first + count) of image n.
void backward_block(const ChannelScaleShape& shape, const ChannelScaleBackward& a, std::int64_t n,
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
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t part = 0; part < shape.batch * blocks; ++part) {
    const std::int64_t first = part % blocks * block;
    backward_block(shape, args, part / blocks, first, std::min(block, shape.channels - first));
  }
}

}  // namespace tandem
