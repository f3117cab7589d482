#include "graph/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "graph/blocks.h"
#include "layers/dropout.h"
#include "layers/linear/linear.h"
#include "layers/registry.h"

namespace tandem {
namespace {

constexpr std::string_view input_name = "input";

struct Declared {
  std::string name;
  std::string op;
  std::vector<std::string> from;
  ConfigTable table;
};

std::vector<std::string> known_ops() {
  std::vector<std::string> ops{"classifier"};
  for (const LayerKind& kind : layer_kinds()) ops.push_back(kind.name);
  for (const BlockKind& kind : block_kinds()) ops.push_back(kind.name);
  std::ranges::sort(ops);
  return ops;
}

class ModelParser {
 public:
  ModelParser(const ConfigTable& root, std::string_view fallback_name, const ModelOptions& options)
      : root_(root) {
    constexpr std::int64_t most = 1 << 20;
    name_ = root.get_string("name", fallback_name);
    const auto choose = [&](std::string_view key, std::int64_t wanted, std::int64_t fallback) {
      const std::int64_t own = root.get_int_or(key, fallback, 1, most);
      return wanted > 0 ? wanted : own;
    };
    classes_are_told_ = options.classes > 0 || root.has("classes");
    classes_ = choose("classes", options.classes, 1000);
    channels_ = choose("channels", options.channels, 3);
    size_ = choose("size", options.size, 224);
    const auto choose_rate = [&](std::string_view key, std::optional<double> wanted) {
      const double own = root.get_real_or(key, 0.0, 0.0, Dropout::largest_rate);
      return wanted.value_or(own);
    };
    dropout_ = choose_rate("dropout", options.dropout);
    stochastic_depth_ = choose_rate("stochastic_depth", options.stochastic_depth);
    if (options.dropout) dropout_is_asked_by_ = options.dropout_place;
    if (options.stochastic_depth) depth_is_asked_by_ = options.stochastic_depth_place;
  }

  Graph parse() {
    declare();
    Graph graph(name_, {1, size_, size_, channels_});
    for (const std::size_t index : topological_order()) add(graph, declared_[index]);
    const std::string& output = declared_.back().name;
    TANDEM_CHECK(!graph.nodes().empty(), "a model without layers");
    if (made_.at(output) != static_cast<int>(graph.nodes().size()) - 1 || !dangling().empty()) {
      declared_.back().table.fail(
          "name", fmt::format("the last node is the output, but '{}' feeds nothing either",
                              dangling().empty() ? output : dangling()));
    }
    if (graph.output().rank() != 2) {
      declared_.back().table.fail(
          "op", fmt::format("the model ends in {}, not in N x classes; end it with a pooling and a "
                            "classifier",
                            graph.output().text()));
    }
    if (classes_are_told_ && graph.output()[1] != classes_) {
      declared_.back().table.fail(
          "op", fmt::format("the model ends in {} outputs for {} classes; end it with op = "
                            "\"classifier\", which has as many as there are classes",
                            graph.output()[1], classes_));
    }
    require_taken_rates();
    root_.finish();
    return graph;
  }

 private:
  void declare() {
    std::string previous(input_name);
    for (const ConfigTable& table : root_.tables("node")) {
      Declared node{.name = table.get_string("name"),
                    .op = table.get_string("op"),
                    .from = table.get_strings("from"),
                    .table = table};
      if (node.name.empty() || node.name == input_name) {
        table.fail("name", "a node needs a name other than 'input'");
      }
      if (node.from.empty()) node.from = {previous};
      if (!index_.emplace(node.name, declared_.size()).second) {
        table.fail("name", fmt::format("a second node is named '{}'", node.name));
      }
      // Before they are put in order, which takes stack for each that another reads.
      if (declared_.size() == Graph::most_layers) {
        table.fail("name", fmt::format("'{}' is one too many: a model has at most {} layers",
                                       node.name, Graph::most_layers));
      }
      previous = node.name;
      declared_.push_back(std::move(node));
    }
    if (declared_.empty()) root_.fail("node", "a model needs at least one [[node]]");
  }

  /// Depth-first order; a node met again while it is still open closes a cycle.
  std::vector<std::size_t> topological_order() {
    std::vector<std::size_t> order;
    std::vector<char> state(declared_.size(), 0);
    std::vector<std::size_t> path;
    for (std::size_t i = 0; i < declared_.size(); ++i) visit(i, state, path, order);
    return order;
  }

  void visit(std::size_t index, std::vector<char>& state, std::vector<std::size_t>& path,
             std::vector<std::size_t>& order) {
    constexpr char open = 1;
    constexpr char done = 2;
    if (state[index] == done) return;
    const Declared& node = declared_[index];
    path.push_back(index);
    if (state[index] == open) {
      std::vector<std::string> names;
      for (auto at = std::ranges::find(path, index); at != path.end(); ++at) {
        names.push_back(declared_[*at].name);
      }
      node.table.fail("from", fmt::format("the nodes form a cycle: {}; no order can run them",
                                          join(names, " <- ")));
    }
    state[index] = open;
    for (const std::string& source : node.from) {
      if (source == input_name) continue;
      const auto found = index_.find(source);
      if (found == index_.end()) {
        std::vector<std::string> names{std::string(input_name)};
        for (const Declared& other : declared_) names.push_back(other.name);
        node.table.fail(
            "from", fmt::format("no node is named '{}'{}", source, did_you_mean(source, names)));
      }
      read_.insert(source);
      visit(found->second, state, path, order);
    }
    path.pop_back();
    state[index] = done;
    order.push_back(index);
  }

  /// A node that nothing reads and that is not the output, or "".
  std::string dangling() const {
    for (const Declared& node : declared_) {
      if (!read_.contains(node.name) && node.name != declared_.back().name) return node.name;
    }
    return {};
  }

  /// Of the whole model; layers of these kinds have rates of their own.
  void require_taken_rates() const {
    if (dropout_ > 0.0 && !dropout_is_taken_) {
      fail_rate("dropout", dropout_is_asked_by_,
                fmt::format("no node of {} is a classifier, before which it would be; end the "
                            "model with op = \"classifier\", or leave it out",
                            name_));
    }
    if (stochastic_depth_ > 0.0 && !depth_is_taken_) {
      fail_rate("stochastic_depth", depth_is_asked_by_,
                fmt::format("no block of {} takes stochastic depth; leave it out", name_));
    }
  }

  void fail_rate(std::string_view key, const std::string& place, const std::string& message) const {
    if (place.empty()) root_.fail(key, message);
    input_error("{}: {} (--set model.{}=unset)", place, message, key);
  }

  int add_block(Graph& graph, const Declared& node, const BlockKind& block, int input) {
    const std::size_t before = graph.nodes().size();
    const int made = block.build({.graph = graph,
                                  .name = node.name,
                                  .input = input,
                                  .table = node.table,
                                  .stochastic_depth = stochastic_depth_});
    const auto is_it = [](const Node& each) { return each.layer->kind() == "stochastic_depth"; };
    depth_is_taken_ |= std::ranges::any_of(graph.nodes().subspan(before), is_it);
    return made;
  }

  int add_classifier(Graph& graph, const Declared& node, int input) {
    dropout_is_taken_ = true;
    if (dropout_ > 0.0) {
      input = graph.add(node.name + ".dropout",
                        std::make_shared<Dropout>(Dropout::Unit::element, dropout_), {input});
    }
    const LinearInit init = read_linear_init(node.table);
    return graph.add(node.name, std::make_shared<Linear>(classes_, true, init), {input});
  }

  void add(Graph& graph, const Declared& node) {
    std::vector<int> inputs;
    for (const std::string& source : node.from) {
      inputs.push_back(source == input_name ? Node::model_input : made_.at(source));
    }
    const auto arity_of = [&](std::size_t wanted) {
      if (inputs.size() == wanted) return;
      node.table.fail("from", fmt::format("{} takes {} input{}, not {}", node.op, wanted,
                                          wanted == 1 ? "" : "s", inputs.size()));
    };
    try {
      if (const LayerKind* kind = find_layer_kind(node.op)) {
        const LayerPtr layer = kind->from_config(node.table);
        arity_of(layer->arity());
        made_[node.name] = graph.add(node.name, layer, inputs);
      } else if (const BlockKind* block = find_block_kind(node.op)) {
        arity_of(1);
        made_[node.name] = add_block(graph, node, *block, inputs[0]);
      } else if (node.op == "classifier") {
        arity_of(1);
        made_[node.name] = add_classifier(graph, node, inputs[0]);
      } else {
        const std::vector<std::string> ops = known_ops();
        node.table.fail("op", fmt::format("no layer or block is called '{}'{}; there are: {}",
                                          node.op, did_you_mean(node.op, ops), join(ops, ", ")));
      }
    } catch (const InputError& error) {
      // Errors of keys carry their place already; those of sizes get the node's.
      const std::string text = error.what();
      if (!text.starts_with("layer '")) throw;
      input_error("{}: {}", node.table.where("op"), text);
    }
    node.table.finish();
  }

  const ConfigTable& root_;
  std::string name_;
  std::int64_t classes_ = 0;
  bool classes_are_told_ = false;
  std::int64_t channels_ = 0;
  std::int64_t size_ = 0;
  double dropout_ = 0.0;
  double stochastic_depth_ = 0.0;
  // A place of the run's; empty: by the model's file.
  std::string dropout_is_asked_by_;
  std::string depth_is_asked_by_;
  bool dropout_is_taken_ = false;
  bool depth_is_taken_ = false;
  std::vector<Declared> declared_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, int, std::less<>> made_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace

Graph parse_model(std::string_view text, std::string_view origin, const ModelOptions& options) {
  const ConfigTable root = ConfigTable::from_text(text, origin);
  return ModelParser(root, origin, options).parse();
}

Graph load_model(const std::filesystem::path& file, const ModelOptions& options) {
  const ConfigTable root = ConfigTable::from_file(file);
  return ModelParser(root, file.stem().string(), options).parse();
}

}  // namespace tandem
