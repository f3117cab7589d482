#include "train/step/parameter_groups.h"

namespace tandem {

std::vector<ParameterGroupSlice> parameter_groups(const OptimizerConfig& config,
                                                  const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.trained()) {
    const bool weight = parameter.role == ParameterRole::weight;
    slices.push_back(config.slice(parameter.offset, parameter.shape.elements(), !weight));
    slices.back().read_unrounded = !weight;
  }
  return slices;
}

}  // namespace tandem
