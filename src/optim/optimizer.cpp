#include "optim/optimizer.h"

#include "base/error.h"

namespace tandem {
namespace {

void check_arena(const Tensor& tensor, std::int64_t elements, std::string_view what) {
  TANDEM_CHECK(tensor.dtype() == DType::f32, "the {} of an update are f32, not {}", what,
               name_of(tensor.dtype()));
  TANDEM_CHECK(tensor.elements() == elements, "an update of {} elements was given {} {}", elements,
               tensor.elements(), what);
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

void Optimizer::step(Tensor parameters, Tensor gradients, const UpdateSettings& settings) {
  check_arena(parameters, arena_elements_, "parameters");
  check_arena(gradients, arena_elements_, "gradients");
  update(*context_, parameters.data<float>(), gradients.data<float>(), settings);
  ++steps_taken_;
}

void Optimizer::set_steps_taken(std::int64_t steps) {
  TANDEM_CHECK(steps >= 0, "{} steps taken", steps);
  steps_taken_ = steps;
}

}  // namespace tandem
