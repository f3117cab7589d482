#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/parameters.h"
#include "graph/step_plan.h"

namespace tandem {

/// A batch for a model: normal images, labels that cycle.
struct Batch {
  Batch(const Graph& graph, std::int64_t size, std::uint64_t seed);
  Tensor images() const { return {const_cast<float*>(pixels.data()), image_shape}; }
  Targets targets() const {
    return {Tensor(const_cast<std::int32_t*>(labels.data()),
                   {static_cast<std::int64_t>(labels.size())}, DType::i32)};
  }
  Shape image_shape;
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

/// A model with every way that values meet, and no kinks: a projection, a value that three layers
/// read, and add(x, x).
Graph smooth_model();

/// A model of the zoo.
Graph zoo_model(const std::string& name);

AnyContext cpu(int threads);

/// Parameters as initialised, but normalisations away from one and zero. The store is the
/// context's.
void scatter_parameters(AnyContext& context, ParameterStore& store, std::uint64_t seed);

std::vector<float> copy_of(const Tensor& tensor);

}  // namespace tandem
