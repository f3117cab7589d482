#include <algorithm>

#include "layers/shuffle_join.h"

namespace tandem {

void shuffle_join_forward(CpuContext& context, const ShuffleJoinShape& shape, const float* a,
                          const float* b, float* output) {
  const std::int64_t count = shape.channels_b;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* even = a + row * shape.channels_a;
    const float* odd = b + row * count;
    float* y = output + row * 2 * count;
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) {
      y[2 * c] = even[c];
      y[2 * c + 1] = odd[c];
    }
  }
}

void shuffle_join_backward(CpuContext& context, const ShuffleJoinShape& shape, int which, bool add,
                           const float* output_gradient, float* input_gradient) {
  const std::int64_t count = shape.channels_b;
  const std::int64_t channels = which == 0 ? shape.channels_a : count;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* dy = output_gradient + row * 2 * count + which;
    float* dx = input_gradient + row * channels;
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

}  // namespace tandem
