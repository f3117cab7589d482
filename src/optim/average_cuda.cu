#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "optim/average_kernels.h"
#include "optim/update_cuda.cuh"

namespace tandem {
namespace {

struct AverageRule {
  template <int width>
  struct Values {
    Pack<float, width> values;
    Pack<float, width> average;
  };

  const float* values;
  float* average;
  float weight;

  __device__ bool aligned() const { return is_aligned(values) && is_aligned(average); }

  template <int width>
  __device__ Values<width> load(int at) const {
    return {.values = Pack<float, width>::load(values + at),
            .average = Pack<float, width>::load(average + at)};
  }

  template <int width>
  __device__ void update(int at, Values<width> loaded) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      float& each = loaded.average.values[i];
      each += weight * (loaded.values.values[i] - each);
    }
    loaded.average.store(average + at);
  }
};

__global__ void __launch_bounds__(update_threads)
    average_all(std::int64_t count, float weight, const float* values, float* average,
                const StepControl* control) {
  if (skips(control)) return;
  const std::int64_t offset = std::int64_t{blockIdx.x} * device_block_elements;
  const std::int64_t left = count - offset;
  const AverageRule rule{.values = values + offset,
                         .average = average + offset,
                         .weight = control == nullptr ? weight : control->host.average_weight};
  update_block(rule, static_cast<int>(left < device_block_elements ? left : device_block_elements));
}

}  // namespace

void average_into(CudaContext& context, std::int64_t count, float weight, const float* values,
                  float* average, const StepControl* control) {
  if (count == 0) return;
  average_all<<<blocks_for(count, static_cast<int>(device_block_elements)), update_threads, 0,
                context.stream()>>>(count, weight, values, average, control);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
