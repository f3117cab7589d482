#include "optim/sgd_kernels.h"
#include "optim/update_cuda.cuh"

namespace tandem {
namespace {

enum class Rule { plain, momentum, nesterov };

template <Rule kind, typename Weight>
struct SgdRule {
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

  static __device__ SgdRule of(const SgdUpdate& update, const UpdateBlock& block,
                               const WeightCopy<Weight>& weights) {
    float rate = update.learning_rate;
    float scale = update.gradient_scale;
    follow(update.control, rate, scale);
    return {.parameters = update.parameters + block.offset,
            .gradients = update.gradients + block.offset,
            .buffer = kind == Rule::plain ? nullptr : update.momentum_buffer + block.offset,
            .weights = weights,
            .rate = rate,
            .scale = scale,
            .momentum = update.momentum,
            .decay = block.weight_decay};
  }

  __device__ bool aligned() const {
    return is_aligned(parameters) && is_aligned(gradients) && weights.aligned() &&
           (kind == Rule::plain || is_aligned(buffer));
  }

  template <int width>
  __device__ Values<width> load(int at) const {
    Values<width> values;
    values.parameters = Pack<float, width>::load(parameters + at);
    values.gradients = Pack<float, width>::load(gradients + at);
    if constexpr (kind != Rule::plain) values.buffer = Pack<float, width>::load(buffer + at);
    return values;
  }

  template <int width>
  __device__ void update(int at, Values<width> values) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      float& parameter = values.parameters.values[i];
      float step = scale * values.gradients.values[i] + decay * parameter;
      if constexpr (kind != Rule::plain) {
        const float velocity = momentum * values.buffer.values[i] + step;
        values.buffer.values[i] = velocity;
        step = kind == Rule::nesterov ? step + momentum * velocity : velocity;
      }
      parameter -= rate * step;
    }
    values.parameters.store(parameters + at);
    if constexpr (kind != Rule::plain) values.buffer.store(buffer + at);
    weights.store(at, values.parameters);
  }
};

template <typename Weight>
using Plain = SgdRule<Rule::plain, Weight>;
template <typename Weight>
using Momentum = SgdRule<Rule::momentum, Weight>;
template <typename Weight>
using Nesterov = SgdRule<Rule::nesterov, Weight>;

}  // namespace

void sgd_update(CudaContext& context, const SgdUpdate& update) {
  if (update.momentum_buffer == nullptr) {
    launch_update<Plain>(context, update);
  } else if (update.nesterov) {
    launch_update<Nesterov>(context, update);
  } else {
    launch_update<Momentum>(context, update);
  }
}

}  // namespace tandem
