#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace tandem {

/// One layer of a model with what feeds it. Parameter and buffer names are complete and
/// torchvision's
/// ("layer1.0.conv1.weight"), in the order in which the layer's kernels get them.
struct Node {
  /// Where an input comes from: a node's index, or the model's own input.
  static constexpr int model_input = -1;

  std::string name;
  LayerPtr layer;
  std::vector<int> inputs;
  std::vector<std::string> parameters{};
  std::vector<std::string> buffers{};
};

/// Of each node the only one that reads it, and once, or -1. The nodes are a graph's, in its order.
std::vector<int> only_readers(std::span<const Node> nodes);

/// A model: nodes in topological order, the last one its output. Shapes here leave out the batch's
/// size: they are for a batch of one.
class Graph {
 public:
  /// `input` is (1, H, W, C).
  Graph(std::string name, const Shape& input) : name_(std::move(name)), input_(input) {}

  static constexpr std::size_t most_layers = 10'000;

  /// Appends a node named `name` and returns its index. Parameters are named `name`.spec. Throws
  /// InputError that names the node where its name is taken, or begins as reserved_names.h says,
  /// and with the sizes where its inputs do not fit.
  int add(std::string name, LayerPtr layer, std::vector<int> inputs);
  /// The same with names given: for layers made out of several.
  int add(Node node);

  const std::string& name() const { return name_; }
  const Shape& input() const { return input_; }
  std::span<const Node> nodes() const { return nodes_; }
  /// Shapes of every node's inputs and output for a batch of `batch`.
  std::vector<Shape> input_shapes(std::size_t node, std::int64_t batch) const;
  Shape output_shape(std::size_t node, std::int64_t batch) const;
  /// Shape of the model's output for a batch of one.
  const Shape& output() const { return shapes_.back(); }

  /// Elements of all parameters, and multiply-adds of one forward pass of one image.
  std::int64_t parameter_elements() const;
  std::int64_t multiply_adds() const;

 private:
  std::string name_;
  Shape input_;
  std::vector<Node> nodes_;
  std::vector<Shape> shapes_;  // of the outputs, batch of one
};

/// `shape` with its first extent replaced by `batch`.
Shape with_batch(const Shape& shape, std::int64_t batch);

}  // namespace tandem
