#include "optim/lars_kernels.h"
#include "optim/lars_rate.h"
#include "optim/update_cuda.cuh"

namespace tandem {
namespace {

template <typename Weight>
struct LarsRule {
  template <int width>
  struct Values {
    Pack<float, width> parameters;
    Pack<float, width> gradients;
    Pack<float, width> buffer;
  };

  float* parameters;
  const float* gradients;
  float* buffer;
  WeightCopy<Weight> weights;
  float rate;
  float scale;
  float momentum;
  float decay;

  static __device__ LarsRule of(const LarsUpdate& update, const UpdateBlock& block,
                                const WeightCopy<Weight>& weights) {
    return {
        .parameters = update.parameters + block.offset,
        .gradients = update.gradients + block.offset,
        .buffer = update.momentum_buffer + block.offset,
        .weights = weights,
        .rate = update.rates.data()[block.slice],
        .scale = update.control == nullptr ? update.gradient_scale : update.control->state.factor,
        .momentum = update.momentum,
        .decay = block.weight_decay};
  }

  __device__ bool aligned() const {
    return is_aligned(parameters) && is_aligned(gradients) && is_aligned(buffer) &&
           weights.aligned();
  }

  template <int width>
  __device__ Values<width> load(int at) const {
    return {.parameters = Pack<float, width>::load(parameters + at),
            .gradients = Pack<float, width>::load(gradients + at),
            .buffer = Pack<float, width>::load(buffer + at)};
  }

  template <int width>
  __device__ void update(int at, Values<width> values) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      float& parameter = values.parameters.values[i];
      const float step = scale * values.gradients.values[i] + decay * parameter;
      const float velocity = momentum * values.buffer.values[i] + rate * step;
      values.buffer.values[i] = velocity;
      parameter -= velocity;
    }
    values.parameters.store(parameters + at);
    values.buffer.store(buffer + at);
    weights.store(at, values.parameters);
  }
};

/// One warp a slice: its lanes take every 32nd block.
__global__ void __launch_bounds__(32) find_rates(LarsRates rates) {
  const LarsSlice slice = rates.slices.data()[blockIdx.x];
  const double* const of_parameters = rates.parameter_squares.data() + slice.first_block;
  const double* const of_gradients = rates.gradient_squares.data() + slice.first_block;
  double parameters = 0.0;
  double gradients = 0.0;
  for (std::int64_t b = threadIdx.x; b < slice.blocks; b += 32) {
    parameters += of_parameters[b];
    gradients += of_gradients[b];
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    parameters += __shfl_down_sync(0xffffffffU, parameters, distance);
    gradients += __shfl_down_sync(0xffffffffU, gradients, distance);
  }
  if (threadIdx.x == 0) {
    rates.rates.data()[blockIdx.x] = lars_rate(rates, slice, parameters, gradients);
  }
}

}  // namespace

void lars_rates(CudaContext& context, const LarsRates& rates) {
  if (rates.slices.empty()) return;
  find_rates<<<static_cast<unsigned>(rates.slices.size()), 32, 0, context.stream()>>>(rates);
  TANDEM_CUDA_CHECK_LAUNCH();
}

void lars_update(CudaContext& context, const LarsUpdate& update) {
  launch_update<LarsRule>(context, update);
}

}  // namespace tandem
