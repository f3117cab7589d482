#include "optim/optimizer.h"

#include <algorithm>

#include "base/error.h"
#include "device/memory.h"

namespace tandem {
namespace {

void check_arena(const Tensor& tensor, std::int64_t elements, std::string_view what) {
  TANDEM_CHECK(tensor.dtype() == DType::f32, "the {} of an update are f32, not {}", what,
               name_of(tensor.dtype()));
  TANDEM_CHECK(tensor.elements() == elements, "an update of {} elements was given {} {}", elements,
               tensor.elements(), what);
}

/// Where the arena's first gradient would lie; only those of the settings are read there.
const float* arena_of(const Tensor& gradients, std::int64_t arena_elements,
                      const UpdateSettings& settings) {
  if (gradients.elements() == arena_elements) return gradients.data<float>();
  const std::int64_t end = std::min(settings.end, arena_elements);
  check_arena(gradients, end - settings.begin, "gradients");
  return gradients.data<float>() - settings.begin;
}

void check_weights(const AnyContext& context, const Tensor& weights, const Tensor& parameters) {
  if (!weights.defined() || weights.raw() == parameters.raw()) return;
  TANDEM_CHECK(!is_host(context), "a CPU's parameters have no copy in {}",
               name_of(weights.dtype()));
  TANDEM_CHECK(weights.dtype() != DType::f32, "a copy of the parameters in their own type");
  TANDEM_CHECK(weights.elements() >= parameters.elements(), "{} weights for {} parameters",
               weights.elements(), parameters.elements());
}

}  // namespace

Optimizer::Optimizer(AnyContext& context, std::int64_t arena_elements,
                     std::span<const ParameterGroupSlice> slices)
    : context_(&context), arena_elements_(arena_elements) {
  std::int64_t end = 0;
  for (const ParameterGroupSlice& slice : slices) {
    TANDEM_CHECK(slice.elements >= 0 && slice.offset >= end,
                 "slice [{}, +{}) overlaps or precedes the one before it, which ends at {}",
                 slice.offset, slice.elements, end);
    end = slice.offset + slice.elements;
    TANDEM_CHECK(end <= arena_elements, "slice [{}, +{}) reaches past an arena of {} elements",
                 slice.offset, slice.elements, arena_elements);
  }
}

void Optimizer::enqueue(Tensor parameters, Tensor gradients, const UpdateSettings& settings) {
  check_arena(parameters, arena_elements_, "parameters");
  TANDEM_CHECK(gradients.dtype() == DType::f32, "the gradients of an update are f32, not {}",
               name_of(gradients.dtype()));
  check_weights(*context_, settings.weights, parameters);
  TANDEM_CHECK(settings.peers.count == 0 || !is_host(*context_), "a CPU's update for others");
  update(*context_, parameters.data<float>(), arena_of(gradients, arena_elements_, settings),
         settings);
}

void Optimizer::step(Tensor parameters, Tensor gradients, const UpdateSettings& settings) {
  enqueue(parameters, gradients, settings);
  count_step();
}

void Optimizer::place_state(const ArenaSource& source) {
  for (Arena* arena : state_arenas()) {
    if (arena->data() != nullptr) *arena = source(arena->bytes());
  }
}

void Optimizer::fill(HostControl& control, float learning_rate) const {
  control.learning_rate = learning_rate;
  control.beta1 = 0.0;
  control.beta2 = 0.0;
  control.update = steps_taken_ + 1;
}

void Optimizer::set_steps_taken(std::int64_t steps) {
  TANDEM_CHECK(steps >= 0, "{} steps taken", steps);
  steps_taken_ = steps;
}

}  // namespace tandem
