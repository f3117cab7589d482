#include "optim/adamw_kernels.h"
#include "optim/update_cuda.cuh"

namespace tandem {
namespace {

template <typename Weight>
struct AdamWRule {
  template <int width>
  struct Values {
    Pack<float, width> parameters;
    Pack<float, width> gradients;
    Pack<float, width> first;
    Pack<float, width> second;
  };

  float* parameters;
  const float* gradients;
  float* first;
  float* second;
  WeightCopy<Weight> weights;
  float decay;
  float scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float epsilon;
  float step_size;
  float inverse_root_correction;

  static __device__ AdamWRule of(AdamWUpdate update, const UpdateBlock& block,
                                 const WeightCopy<Weight>& weights) {
    follow(update.control, update);
    return {.parameters = update.parameters + block.offset,
            .gradients = update.gradients + block.offset,
            .first = update.first_moment + block.offset,
            .second = update.second_moment + block.offset,
            .weights = weights,
            .decay = update.learning_rate * block.weight_decay,
            .scale = update.gradient_scale,
            .beta1 = update.beta1,
            .one_minus_beta1 = update.one_minus_beta1,
            .beta2 = update.beta2,
            .one_minus_beta2 = update.one_minus_beta2,
            .epsilon = update.epsilon,
            .step_size = update.step_size,
            .inverse_root_correction = update.inverse_root_correction};
  }

  __device__ bool aligned() const {
    return is_aligned(parameters) && is_aligned(gradients) && is_aligned(first) &&
           is_aligned(second) && weights.aligned();
  }

  template <int width>
  __device__ Values<width> load(int at) const {
    return {.parameters = Pack<float, width>::load(parameters + at),
            .gradients = Pack<float, width>::load(gradients + at),
            .first = Pack<float, width>::load(first + at),
            .second = Pack<float, width>::load(second + at)};
  }

  template <int width>
  __device__ void update(int at, Values<width> values) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float g = scale * values.gradients.values[i];
      const float m = beta1 * values.first.values[i] + one_minus_beta1 * g;
      const float v = beta2 * values.second.values[i] + one_minus_beta2 * g * g;
      values.first.values[i] = m;
      values.second.values[i] = v;
      const float deviation = sqrtf(v) * inverse_root_correction + epsilon;
      const float parameter = values.parameters.values[i];
      const float decayed = parameter - decay * parameter;
      values.parameters.values[i] = decayed - step_size * m / deviation;
    }
    values.parameters.store(parameters + at);
    values.first.store(first + at);
    values.second.store(second + at);
    weights.store(at, values.parameters);
  }
};

}  // namespace

void adamw_update(CudaContext& context, const AdamWUpdate& update) {
  launch_update<AdamWRule>(context, update);
}

}  // namespace tandem
