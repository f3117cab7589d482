#include "train/norm_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

bool normalises(const Node& node) { return !node.buffers.empty(); }  // by running statistics

/// Whether it normalises by its running statistics in training too.
bool has_fixed_statistics(const Node& node, const RunConfig& config) {
  return config.freeze_statistics && std::ranges::all_of(node.parameters, [&](const auto& name) {
           return config.freeze.match(name);
         });
}

}  // namespace

void require_values_to_normalise(const Graph& graph, const RunConfig& config, std::int64_t batch,
                                 std::int64_t processes) {
  const std::int64_t samples =
      batch / config.folded_ranks * (config.sync_batch_norm ? processes : 1);
  for (std::size_t i = 0; samples == 1 && i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!normalises(node) || has_fixed_statistics(node, config)) continue;
    const Shape shape = graph.output_shape(i, 1);
    if (shape.elements() != shape[shape.rank() - 1]) continue;
    with_place(config.global_batch_place, [&] {
      input_error(
          "{} would normalise one value of each channel, a sample of 1 x 1 pixels, which is 0 "
          "whatever it was: give each rank more samples (train.global_batch) or larger images "
          "(data.size{})",
          node.name, processes > 1 ? ", or train.sync_batch_norm" : "");
    });
  }
}

}  // namespace tandem
