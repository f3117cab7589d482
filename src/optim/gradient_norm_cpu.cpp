#include <cstddef>

#include "optim/gradient_norm_kernels.h"

namespace tandem {

void square_sums(CpuContext& context, std::span<const UpdateBlock> blocks, const float* values,
                 std::span<double> sums) {
  const auto count = static_cast<std::int64_t>(blocks.size());
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t b = 0; b < count; ++b) {
    const UpdateBlock& block = blocks[static_cast<std::size_t>(b)];
    const float* const in = values + block.offset;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < block.elements; ++i) {
      sum += static_cast<double>(in[i]) * static_cast<double>(in[i]);
    }
    sums[static_cast<std::size_t>(b)] = sum;
  }
}

}  // namespace tandem
