#pragma once

#include <string>

#include "graph/graph.h"
#include "graph/parameters.h"
#include "graph/step_plan.h"

namespace tandem {

/// What makes a training step the same work as another one, on one device: the model with its
/// layers' options, what of it is trained, the batch and how it is computed. One line of text: the
/// model's name, the images, the precision, and a hash of the rest.
std::string step_key(const Graph& graph, const ParameterStore& parameters,
                     const StepPlanOptions& options);

}  // namespace tandem
