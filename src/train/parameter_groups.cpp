#include "train/parameter_groups.h"

namespace tandem {

std::vector<ParameterGroupSlice> parameter_groups(const OptimizerConfig& config,
                                                  const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.trained()) {
    slices.push_back(config.slice(parameter.offset, parameter.shape.elements(),
                                  parameter.role != ParameterRole::weight));
  }
  return slices;
}

}  // namespace tandem
