#include "graph/graph.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/reserved_names.h"

namespace tandem {

Shape with_batch(const Shape& shape, std::int64_t batch) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  TANDEM_CHECK(!extents.empty(), "a scalar has no batch");
  extents[0] = batch;
  return Shape(extents);
}

namespace {

/// Of an output for one image, or of one parameter: within it all counts fit 64 bits.
constexpr double most_elements = 0x1p30;

void require_sensible_size(const Node& node, std::string_view what, const Shape& shape) {
  double elements = 1.0;
  for (const std::int64_t extent : shape.extents()) elements *= static_cast<double>(extent);
  if (elements <= most_elements) return;
  input_error("layer '{}' ({}) would have {} of {}, more than {:g} elements; use a smaller one",
              node.name, node.layer->kind(), what, shape.text(), most_elements);
}

}  // namespace

std::vector<int> only_readers(std::span<const Node> nodes) {
  std::vector<int> readers(nodes.size(), -1);
  std::vector<int> reads(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const int input : nodes[i].inputs) {
      if (input == Node::model_input) continue;
      readers[static_cast<std::size_t>(input)] = static_cast<int>(i);
      ++reads[static_cast<std::size_t>(input)];
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (reads[i] != 1) readers[i] = -1;
  }
  return readers;
}

int Graph::add(std::string name, LayerPtr layer, std::vector<int> inputs) {
  Node node{.name = std::move(name), .layer = std::move(layer), .inputs = std::move(inputs)};
  nodes_.push_back(node);
  std::vector<Shape> shapes;
  Shape output;
  try {
    shapes = input_shapes(nodes_.size() - 1, 1);
    output = node.layer->output_shape(shapes);
  } catch (const InputError& error) {
    nodes_.pop_back();
    input_error("layer '{}' ({}) {}", node.name, node.layer->kind(), error.what());
  }
  nodes_.pop_back();
  require_sensible_size(node, "an output", output);
  for (const ParameterSpec& spec : node.layer->parameters(shapes)) {
    require_sensible_size(node, "a parameter", spec.shape);
    node.parameters.push_back(node.name + "." + spec.name);
  }
  for (const BufferSpec& spec : node.layer->buffers(shapes)) {
    node.buffers.push_back(node.name + "." + spec.name);
  }
  return add(std::move(node));
}

int Graph::add(Node node) {
  const auto index = static_cast<int>(nodes_.size());
  TANDEM_CHECK(node.inputs.size() == node.layer->arity(), "layer '{}' ({}) takes {} inputs, not {}",
               node.name, node.layer->kind(), node.layer->arity(), node.inputs.size());
  for (const int input : node.inputs) {
    TANDEM_CHECK(input >= Node::model_input && input < index, "layer '{}' takes input {}",
                 node.name, input);
  }
  // Parameters are found by their names, which start with the layer's.
  if (std::ranges::any_of(nodes_, [&](const Node& other) { return other.name == node.name; })) {
    input_error("layer '{0}' ({1}) is there already; name one of the two otherwise", node.name,
                node.layer->kind());
  }
  for (const std::string_view prefix : {optimizer_prefix, average_prefix}) {
    if (!(node.name + ".").starts_with(prefix)) continue;
    input_error(
        "layer '{}' ({}) cannot have this name: checkpoints keep what is no weight of the model "
        "under '{}'; choose another name",
        node.name, node.layer->kind(), prefix);
  }
  if (nodes_.size() == most_layers) {
    input_error("layer '{}' ({}) is one too many: a model has at most {} layers", node.name,
                node.layer->kind(), most_layers);
  }
  nodes_.push_back(std::move(node));
  const std::vector<Shape> shapes = input_shapes(nodes_.size() - 1, 1);
  shapes_.push_back(nodes_.back().layer->output_shape(shapes));
  return index;
}

std::vector<Shape> Graph::input_shapes(std::size_t node, std::int64_t batch) const {
  std::vector<Shape> shapes;
  for (const int input : nodes_[node].inputs) {
    shapes.push_back(with_batch(
        input == Node::model_input ? input_ : shapes_[static_cast<std::size_t>(input)], batch));
  }
  return shapes;
}

Shape Graph::output_shape(std::size_t node, std::int64_t batch) const {
  return with_batch(shapes_[node], batch);
}

std::int64_t Graph::parameter_elements() const {
  std::int64_t total = 0;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    for (const ParameterSpec& spec : nodes_[node].layer->parameters(input_shapes(node, 1))) {
      total += spec.shape.elements();
    }
  }
  return total;
}

std::int64_t Graph::multiply_adds() const {
  std::int64_t total = 0;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const std::int64_t own = nodes_[node].layer->multiply_adds(input_shapes(node, 1));
    if (__builtin_add_overflow(total, own, &total)) return INT64_MAX;
  }
  return total;
}

}  // namespace tandem
