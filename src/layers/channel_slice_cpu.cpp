#include <algorithm>

#include "layers/channel_slice.h"

namespace tandem {

void channel_slice_forward(CpuContext& context, const ChannelRange& range, const float* input,
                           float* output) {
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < range.rows; ++row) {
    std::copy_n(input + row * range.channels + range.first, range.count,
                output + row * range.count);
  }
}

void channel_slice_backward(CpuContext& context, const ChannelRange& range, bool add,
                            const float* output_gradient, float* input_gradient) {
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < range.rows; ++row) {
    const float* dy = output_gradient + row * range.count;
    float* dx = input_gradient + row * range.channels;
    if (add) {
#pragma omp simd
      for (std::int64_t c = 0; c < range.count; ++c) dx[range.first + c] += dy[c];
    } else {
      std::fill_n(dx, range.first, 0.0F);
      std::copy_n(dy, range.count, dx + range.first);
      std::fill(dx + range.first + range.count, dx + range.channels, 0.0F);
    }
  }
}

}  // namespace tandem
