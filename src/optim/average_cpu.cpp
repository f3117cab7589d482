#include "optim/average_kernels.h"

namespace tandem {

void average_into(CpuContext& context, std::int64_t count, float weight, const float* values,
                  float* average, const StepControl* control) {
  if (skips(control)) return;
  if (control != nullptr) weight = control->host.average_weight;
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    average[i] += weight * (values[i] - average[i]);
  }
}

}  // namespace tandem
