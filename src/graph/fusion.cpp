#include "graph/fusion.h"

#include <map>
#include <memory>
#include <optional>

#include "layers/activation.h"
#include "layers/add.h"
#include "layers/convolution/conv_bn.h"
#include "layers/shuffle_join.h"

namespace tandem {
namespace {

/// A chain of nodes that becomes one conv_bn: it is emitted where its last node stood, when all
/// that it reads is there.
struct Chain {
  int conv = 0;
  int norm = 0;
  int add = -1;
  int activation = -1;
  int join = -1;
  int other = 0;  // what the sum or the join reads beside the chain
  int last() const {
    for (const int member : {join, activation, add}) {
      if (member >= 0) return member;
    }
    return norm;
  }
};

template <typename L>
const L* as(const Node& node) {
  return dynamic_cast<const L*>(node.layer.get());
}

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph), readers_(only_readers(graph.nodes())) {}

  Graph run() {
    std::map<int, Chain> by_last;
    std::vector<bool> swallowed(graph_.nodes().size(), false);
    for (int i = 0; i < static_cast<int>(graph_.nodes().size()); ++i) {
      const std::optional<Chain> chain = find_chain(i, swallowed);
      if (!chain) continue;
      for (const int member :
           {chain->conv, chain->norm, chain->add, chain->activation, chain->join}) {
        if (member >= 0) swallowed[static_cast<std::size_t>(member)] = true;
      }
      by_last.emplace(chain->last(), *chain);
    }
    Graph fused(graph_.name(), graph_.input());
    std::vector<int> moved(graph_.nodes().size(), -1);
    const auto target = [&](int node) {
      return node < 0 ? node : moved[static_cast<std::size_t>(node)];
    };
    for (int i = 0; i < static_cast<int>(graph_.nodes().size()); ++i) {
      Node node = at(i);
      if (const auto chain = by_last.find(i); chain != by_last.end()) {
        node = fused_node(chain->second);
      } else if (swallowed[static_cast<std::size_t>(i)]) {
        continue;
      }
      for (int& input : node.inputs) input = target(input);
      moved[static_cast<std::size_t>(i)] = fused.add(std::move(node));
    }
    return fused;
  }

 private:
  const Node& at(int node) const { return graph_.nodes()[static_cast<std::size_t>(node)]; }
  /// The one node that reads `node`, or -1.
  int only_reader(int node) const { return readers_[static_cast<std::size_t>(node)]; }

  std::optional<Chain> find_chain(int conv, const std::vector<bool>& swallowed) const {
    const auto* convolution = as<Conv2d>(at(conv));
    if (convolution == nullptr || convolution->options().bias) return std::nullopt;
    const int norm = only_reader(conv);
    if (norm < 0 || as<BatchNorm>(at(norm)) == nullptr) return std::nullopt;
    Chain chain{.conv = conv, .norm = norm};
    int next = only_reader(norm);
    // Both arms of a residual sum may end in a convolution; the first one found takes the sum. The
    // main arm comes first in the graph, the projection of the shortcut behind it.
    if (next >= 0 && as<Add>(at(next)) != nullptr && !swallowed[static_cast<std::size_t>(next)]) {
      const std::vector<int>& inputs = at(next).inputs;
      if (inputs[0] != inputs[1]) {
        chain.add = next;
        chain.other = inputs[0] == norm ? inputs[1] : inputs[0];
        next = only_reader(next);
      }
    }
    if (next >= 0 && fuses(chain, at(next))) {
      chain.activation = next;
      next = only_reader(next);
    }
    if (next >= 0 && takes_join(chain, next)) {
      chain.join = next;
      chain.other = at(next).inputs[0];
    }
    return chain;
  }

  /// The arm that comes second in a join takes it: the main one, which ends behind the other.
  bool takes_join(const Chain& chain, int next) const {
    if (as<ShuffleJoin>(at(next)) == nullptr || at(next).inputs[1] != chain.last()) return false;
    const std::vector<Shape> inputs = graph_.input_shapes(static_cast<std::size_t>(next), 1);
    return chain.add < 0 && fuses_with_join(activation_of(chain)) &&
           ConvBn::joins(inputs[0], inputs[1]);
  }

  static bool fuses(const Chain& chain, const Node& next) {
    const auto* layer = as<ActivationLayer>(next);
    return layer != nullptr && layer->activation() != Activation::sigmoid &&
           (chain.add < 0 || ConvBn::fuses_with_add(layer->activation()));
  }

  Activation activation_of(const Chain& chain) const {
    return chain.activation < 0 ? Activation::none
                                : as<ActivationLayer>(at(chain.activation))->activation();
  }

  Node fused_node(const Chain& chain) const {
    const Node& conv = at(chain.conv);
    const Node& norm = at(chain.norm);
    const ConvBnOptions options{.conv = as<Conv2d>(conv)->options(),
                                .norm = as<BatchNorm>(norm)->options(),
                                .add = chain.add >= 0,
                                .activation = activation_of(chain),
                                .join = chain.join >= 0};
    Node node{.name = conv.name,
              .layer = std::make_shared<ConvBn>(options),
              .inputs = conv.inputs,
              .parameters = conv.parameters,
              .buffers = norm.buffers};
    node.parameters.insert(node.parameters.end(), norm.parameters.begin(), norm.parameters.end());
    if (node.layer->arity() > 1) node.inputs.push_back(chain.other);
    return node;
  }

  const Graph& graph_;
  std::vector<int> readers_;
};

}  // namespace

Graph fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace tandem
