#include "device/cuda_check.h"
#include "device/cuda_context.h"
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

template <Rule kind, typename Weight>
__global__ void __launch_bounds__(update_threads) update_all(SgdUpdate update, Weight* weights) {
  const UpdateBlock block = update.blocks.data()[blockIdx.x];
  if (skips(update.control)) return;
  float rate = update.learning_rate;
  float scale = update.gradient_scale;
  follow(update.control, rate, scale);
  const SgdRule<kind, Weight> rule{
      .parameters = update.parameters + block.offset,
      .gradients = update.gradients + block.offset,
      .buffer = kind == Rule::plain ? nullptr : update.momentum_buffer + block.offset,
      .weights = {weights, block},
      .rate = rate,
      .scale = scale,
      .momentum = update.momentum,
      .decay = block.weight_decay};
  update_block(rule, static_cast<int>(block.elements));
}

template <Rule kind>
void launch(CudaContext& context, const SgdUpdate& update) {
  with_weights(update.weights, [&](auto* weights) {
    update_all<kind>
        <<<static_cast<unsigned>(update.blocks.size()), update_threads, 0, context.stream()>>>(
            update, weights);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

}  // namespace

void sgd_update(CudaContext& context, const SgdUpdate& update) {
  if (update.blocks.empty()) return;
  if (update.momentum_buffer == nullptr) {
    launch<Rule::plain>(context, update);
  } else if (update.nesterov) {
    launch<Rule::nesterov>(context, update);
  } else {
    launch<Rule::momentum>(context, update);
  }
}

}  // namespace tandem
