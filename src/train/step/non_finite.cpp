#include "train/step/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tensor/finite.h"

namespace tandem {
namespace {

/// The name of the first parameter, in backward's order, whose slice of `arena` is not finite;
/// empty where none is.
std::string first_in(const ParameterStore& store, const Tensor& arena) {
  if (all_finite(store.context(), arena)) return {};
  std::vector<std::size_t> order(store.model_order().begin(), store.model_order().end());
  std::ranges::reverse(order);
  for (const std::size_t index : order) {
    const Parameter& parameter = store.parameters()[index];
    const std::int64_t elements = parameter.shape.elements();
    if (parameter.offset + elements > arena.elements()) continue;
    if (!all_finite(store.context(), Tensor(arena.data<float>() + parameter.offset, {elements}))) {
      return parameter.name;
    }
  }
  return {};
}

}  // namespace

std::string non_finite_weights(const ParameterStore& store, std::int64_t step,
                               const Tensor& gradients) {
  const std::string weight = first_in(store, store.all_values());
  if (weight.empty()) return {};
  if (step == 0) return fmt::format("'{}' is so from the start", weight);
  const std::string gradient = gradients.defined() ? first_in(store, gradients) : std::string();
  return gradient.empty() ? fmt::format("the update of step {} made '{}' so", step, weight)
                          : fmt::format("first so was the gradient of '{}', in backward of step {}",
                                        gradient, step);
}

std::string non_finite_statistics(const ParameterStore& store) {
  if (all_finite(store.context(), store.buffers_of_ranks())) return {};
  for (std::size_t i = 0; i < store.buffers().size(); ++i) {
    for (std::int64_t rank = 0; rank < store.ranks(); ++rank) {
      if (!all_finite(store.context(), store.buffer(i, rank))) {
        return fmt::format("first so is '{}'{}", store.buffers()[i].name,
                           rank == 0 ? "" : fmt::format(" of rank {} of this process", rank));
      }
    }
  }
  return {};
}

std::string non_finite_cause(bool images_finite, const std::optional<std::string>& layer,
                             int rank) {
  const std::string place = rank < 0 ? "" : fmt::format(" on rank {}", rank);
  if (!images_finite) return "first so are images of the batch" + place;
  if (layer) return fmt::format("first so is the output of layer '{}'{}", *layer, place);
  return "the model's output is finite" + place;
}

}  // namespace tandem
