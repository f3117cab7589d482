#include "graph/layer_cost.h"

#include <algorithm>

namespace tandem {
namespace {

/// The sizes of one layer's tensors, in bytes.
struct Sizes {
  double first_input = 0.0;
  double other_inputs = 0.0;
  double output = 0.0;
  double product = 0.0;              // what a product leaves, where it is the layer's first part
  double weights = 0.0;              // as products read them
  double parameter_gradients = 0.0;  // f32
};

Sizes sizes_of(const Graph& graph, std::size_t index, std::int64_t batch,
               const LayerTraffic& traffic, double element) {
  const Node& node = graph.nodes()[index];
  const std::vector<Shape> inputs = graph.input_shapes(index, batch);
  Sizes sizes;
  sizes.output = element * static_cast<double>(graph.output_shape(index, batch).elements());
  sizes.product = element * static_cast<double>(traffic.product);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    (i == 0 ? sizes.first_input : sizes.other_inputs) +=
        element * static_cast<double>(traffic.inputs[i]);
  }
  for (const ParameterSpec& spec : node.layer->parameters(inputs)) {
    const auto elements = static_cast<double>(spec.shape.elements());
    sizes.weights += elements * (spec.role == ParameterRole::weight ? element : sizeof(float));
    sizes.parameter_gradients += elements * sizeof(float);
  }
  return sizes;
}

bool normalises(const Graph& graph, std::size_t index) {
  return std::ranges::any_of(
      graph.nodes()[index].layer->parameters(graph.input_shapes(index, 1)),
      [](const ParameterSpec& spec) { return spec.role == ParameterRole::norm; });
}

double forward_bytes(const Sizes& sizes, bool product, bool norm) {
  double bytes = sizes.first_input + sizes.other_inputs + sizes.weights + sizes.output;
  if (norm) bytes += product ? 2 * sizes.product : sizes.first_input;
  return bytes;
}

/// `result`: what is read of it, or of the bits in its place. `inner`, `other`: whether the
/// gradients of the first and of the other inputs are wanted.
double backward_bytes(const Sizes& sizes, double result, bool reads_inputs, bool product, bool norm,
                      bool inner, bool other) {
  double bytes = sizes.output + sizes.parameter_gradients + result;
  if (inner) bytes += sizes.first_input;
  if (other) bytes += sizes.other_inputs;
  if (norm) {
    // Both passes read the gradient and what was normalised.
    bytes += product ? sizes.output + 2 * sizes.product : 3 * sizes.first_input;
  }
  if (!product) {
    if (reads_inputs && !norm) bytes += sizes.first_input + sizes.other_inputs;
    return bytes;
  }
  bytes += sizes.first_input;            // for the weights' gradient
  if (norm) bytes += 2 * sizes.product;  // the convolution's gradient, written and read
  if (inner) bytes += sizes.product + sizes.weights;
  return bytes;
}

}  // namespace

std::vector<LayerCost> layer_costs(const Graph& graph, std::int64_t batch, Precision precision,
                                   const std::vector<bool>& deferred_norms) {
  const DType dtype = activation_dtype(precision);
  const auto element = static_cast<double>(size_of(dtype));
  std::vector<LayerCost> costs(graph.nodes().size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto wanted = [&](int input) {
      return input != Node::model_input && costs[static_cast<std::size_t>(input)].backward;
    };
    const LayerTraffic traffic = node.layer->traffic(graph.input_shapes(i, batch), dtype);
    const Sizes sizes = sizes_of(graph, i, batch, traffic, element);
    const auto macs = static_cast<double>(batch) *
                      static_cast<double>(node.layer->multiply_adds(graph.input_shapes(i, 1)));
    const bool product = macs > 0.0;
    const bool norm = normalises(graph, i);
    const bool inner = wanted(node.inputs[0]);
    const bool other = std::any_of(node.inputs.begin() + 1, node.inputs.end(), wanted);
    // The output is then what is normalised, and backward does not ask for the result.
    const bool deferred = !deferred_norms.empty() && deferred_norms[i];
    const BackwardNeeds needs = node.layer->backward_needs();
    const bool asks = needs.output && !deferred;
    const bool bits = asks && traffic.bits_for_output;
    const double saved = bits ? sizes.output / (8 * element) : 0.0;
    LayerCost& cost = costs[i];
    cost.forward_bytes = forward_bytes(sizes, product, norm && !deferred) + saved;
    cost.forward_operations = 2 * macs;
    cost.backward = inner || other || !node.parameters.empty();
    if (!cost.backward) continue;
    const double result = bits ? saved : asks ? sizes.output : 0.0;
    cost.backward_bytes = backward_bytes(sizes, result, needs.inputs, product, norm, inner, other);
    cost.backward_operations = (inner ? 4 : 2) * macs;
  }
  return costs;
}

}  // namespace tandem
