#include <algorithm>

#include "layers/channel_slice.h"

namespace tandem {

void channel_slice_forward(CpuContext& context, const ChannelRange& range, const Tensor& input,
                           const Tensor& output) {
  const auto* x = input.data<float>();
  auto* y = output.data<float>();
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < range.rows; ++row) {
    std::copy_n(x + row * range.channels + range.first, range.count, y + row * range.count);
  }
}

void channel_slice_backward(CpuContext& context, const ChannelRange& range, bool add,
                            const Tensor& output_gradient, const Tensor& input_gradient) {
  const auto* all_dy = output_gradient.data<float>();
  auto* all_dx = input_gradient.data<float>();
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < range.rows; ++row) {
    const float* dy = all_dy + row * range.count;
    float* dx = all_dx + row * range.channels;
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
