#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "layers/activation.h"
#include "layers/convolution/conv2d.h"
#include "layers/normalisation/batch_norm.h"

namespace tandem {

/// Adds the layers of one block to a graph, named below the block's name. Each function returns the
/// new node.
class BlockBuilder {
 public:
  BlockBuilder(Graph& graph, std::string prefix) : graph_(graph), prefix_(std::move(prefix)) {}

  int add(const std::string& name, LayerPtr layer, std::vector<int> inputs) {
    return graph_.add(prefix_ + "." + name, std::move(layer), std::move(inputs));
  }
  int conv(const std::string& name, int input, const Conv2dOptions& options) {
    return add(name, std::make_shared<Conv2d>(options), {input});
  }
  int norm(const std::string& name, int input) {
    return add(name, std::make_shared<BatchNorm>(BatchNormOptions{}), {input});
  }
  int activation(const std::string& name, Activation activation, int input) {
    return add(name, std::make_shared<ActivationLayer>(activation), {input});
  }
  /// Convolution `name`.0, normalisation `name`.1 and, unless none, activation `name`.2: what
  /// torchvision calls Conv2dNormActivation.
  int conv_norm_activation(const std::string& name, int input, const Conv2dOptions& options,
                           Activation kind) {
    const int normed = norm(name + ".1", conv(name + ".0", input, options));
    return kind == Activation::none ? normed : activation(name + ".2", kind, normed);
  }

  /// Channels of an image node.
  std::int64_t channels(int node) const {
    return node == Node::model_input ? graph_.input()[3]
                                     : graph_.output_shape(static_cast<std::size_t>(node), 1)[3];
  }

 private:
  Graph& graph_;
  std::string prefix_;
};

}  // namespace tandem
