#include <cstring>

#include "layers/add.h"

namespace tandem {

void add_forward(CpuContext& context, const Tensor& a, const Tensor& b, const Tensor& output) {
  const std::int64_t count = output.elements();
  const auto* left = a.data<float>();
  const auto* right = b.data<float>();
  auto* sum = output.data<float>();
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

void copy_forward(CpuContext& /*context*/, const Tensor& input, const Tensor& output) {
  std::memcpy(output.raw(), input.raw(), output.bytes());
}

}  // namespace tandem
