#include <algorithm>

#include "layers/shuffle_join.h"

namespace tandem {

void shuffle_join_forward(CpuContext& context, const ShuffleJoinShape& shape, const Tensor& a,
                          const Tensor& b, const Tensor& output) {
  const auto* all_even = a.data<float>();
  const auto* all_odd = b.data<float>();
  auto* all_y = output.data<float>();
  const std::int64_t count = shape.channels_b;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* even = all_even + row * shape.channels_a;
    const float* odd = all_odd + row * count;
    float* y = all_y + row * 2 * count;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      y[2 * c] = even[c];
      y[2 * c + 1] = odd[c];
    }
  }
}

namespace {

void write_gradient(CpuContext& context, const ShuffleJoinShape& shape, int which, bool add,
                    const Tensor& output_gradient, const Tensor& input_gradient) {
  const auto* all_dy = output_gradient.data<float>();
  auto* all_dx = input_gradient.data<float>();
  const std::int64_t count = shape.channels_b;
  const std::int64_t channels = which == 0 ? shape.channels_a : count;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* dy = all_dy + row * 2 * count + which;
    float* dx = all_dx + row * channels;
    if (add) {
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) dx[c] += dy[2 * c];
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) dx[c] = dy[2 * c];
      std::fill(dx + count, dx + channels, 0.0F);
    }
  }
}

}  // namespace

void shuffle_join_backward(CpuContext& context, const ShuffleJoinShape& shape,
                           const ShuffleJoinBackward& args) {
  for (int which = 0; which < 2; ++which) {
    const auto index = static_cast<std::size_t>(which);
    if (!args.gradients[index].defined()) continue;
    write_gradient(context, shape, which, args.add[index], args.output_gradient,
                   args.gradients[index]);
  }
}

}  // namespace tandem
