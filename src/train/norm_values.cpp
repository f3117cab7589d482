#include "train/norm_values.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

/// Of what the node's layer learns, the names of a normalisation's.
std::vector<std::string> norm_parameters(const Graph& graph, std::size_t index) {
  const Node& node = graph.nodes()[index];
  const std::vector<ParameterSpec> specs = node.layer->parameters(graph.input_shapes(index, 1));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].role == ParameterRole::norm) names.push_back(node.parameters[i]);
  }
  return names;
}

/// Whether it normalises by its running statistics in training too, as StepPlan has it.
bool has_fixed_statistics(const std::vector<std::string>& names, const RunConfig& config) {
  return config.freeze_statistics && std::ranges::all_of(names, [&](const std::string& name) {
           return config.freeze.match(name);
         });
}

/// What would give a channel more values.
std::string ways_out(const RunConfig& config, std::int64_t processes) {
  std::string ways = "a larger data.size or train.global_batch";
  if (config.accumulate > 1) ways += ", a smaller train.accumulate";
  if (processes * config.folded_ranks > 1 && !config.sync_batch_norm) {
    ways += ", fewer ranks, or train.sync_batch_norm = true";
  }
  return ways;
}

}  // namespace

std::int64_t ranks_with_statistics(const RunConfig& config) {
  return config.sync_batch_norm ? 1 : config.folded_ranks;
}

void require_values_to_normalise(const Graph& graph, const RunConfig& config, std::int64_t batch,
                                 std::int64_t processes) {
  const std::int64_t samples =
      config.sync_batch_norm ? batch * processes : batch / config.folded_ranks;
  if (samples > 1) return;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Shape shape = graph.output_shape(i, 1);
    if (shape.elements() != shape[shape.rank() - 1]) continue;  // several pixels
    const std::vector<std::string> names = norm_parameters(graph, i);
    if (names.empty() || has_fixed_statistics(names, config)) continue;
    with_place(config.global_batch_place, [&] {
      input_error(
          "layer '{}' would normalise each channel over a single value, one pixel of one sample, "
          "which gives 0 whatever the value: it takes {}",
          graph.nodes()[i].name, ways_out(config, processes));
    });
  }
}

}  // namespace tandem
