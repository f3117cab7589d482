#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tandem {

/// Which conv_bn layers leave their normalisation to the layer that alone reads them
/// (layers/convolution/deferred_norm.h), on CUDA devices.
enum class NormDeferral : std::uint8_t {
  /// By size or memory_only, as make_step_plan() finds it faster (graph/step_plan_choice.h); by
  /// size in a plan that is made otherwise.
  by_timing,
  /// Those where it saves time, and a SiLU under a 3x3 window, where it saves memory alone.
  by_size,
  /// Of those that by_size takes the ones where it saves memory alone.
  memory_only,
  /// Those that by_size takes of so many samples that no normalisation fits one kernel: a plan of
  /// few samples then tells what many need.
  as_of_many,
  never,
  /// All that can.
  always,
};

/// For each node the node that can normalise what it reads of it, its only reader, or -1.
std::vector<int> norm_readers(const Graph& graph);

/// Sets KernelRequest::defers_norm of the layers that leave their normalisation, and input_norm of
/// those that get it. One request a node, else complete. Returns for each node the one that it is
/// left to, or -1.
std::vector<int> defer_norms(const Graph& graph, const AnyContext& context, NormDeferral which,
                             std::vector<KernelRequest>& requests);

}  // namespace tandem
