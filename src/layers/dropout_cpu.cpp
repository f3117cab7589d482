#include "base/philox.h"
#include "layers/dropout.h"

namespace tandem {

void dropout_draw(CpuContext& context, const DropoutShape& shape, float rate, std::uint64_t key,
                  const StepRandom& random, float* factors) {
  const float kept = 1.0F / (1.0F - rate);
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    RandomStream stream(key, random.first_sample + static_cast<std::uint64_t>(n));
    float* own = factors + n * shape.units;
    for (std::int64_t unit = 0; unit < shape.units; ++unit) {
      own[unit] = stream.uniform() < rate ? 0.0F : kept;
    }
  }
}

void dropout_apply(CpuContext& context, const DropoutShape& shape, const float* factors,
                   const Tensor& input, const Tensor& output) {
  const auto* all_x = input.data<float>();
  auto* all_y = output.data<float>();
  const std::int64_t elements = shape.units * shape.unit_elements;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    const float* factor = factors + n * shape.units;
    const float* x = all_x + n * elements;
    float* y = all_y + n * elements;
    if (shape.units == 1) {
      const float all = factor[0];
#pragma omp simd
      for (std::int64_t i = 0; i < elements; ++i) y[i] = x[i] * all;
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < elements; ++i) y[i] = x[i] * factor[i];
    }
  }
}

}  // namespace tandem
