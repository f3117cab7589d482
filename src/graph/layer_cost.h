#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tandem {

/// What one layer has to do in a training step, whoever computes it: floating-point operations of
/// its products (2 per multiply-add), and the bytes that it must move through memory.
///
/// Bytes are a floor for layers computed one by one: each tensor that a pass works on is read or
/// written once, more often where one pass over it must be complete before the next begins. Batch
/// normalisation reads its input twice forward (statistics, then result; behind a convolution the
/// statistics come for nothing with its output) and input and gradient twice backward. One that is
/// left to its reader (NormDeferral) takes nothing forward but the convolution's output. A product
/// reads its output's gradient twice, for the gradients of the input and of the weights. Of a sum
/// behind which a bit an element tells where gradients pass (passes_are_bits()) forward writes the
/// bits, and backward reads them instead of the result; kernels that hold a tensor in registers,
/// and the CPU's, read the result. What else kernels keep beside their tensors is not counted.
struct LayerCost {
  double forward_bytes = 0.0;
  double forward_operations = 0.0;
  /// Whether backward runs: there is a parameter here or below.
  bool backward = false;
  double backward_bytes = 0.0;
  double backward_operations = 0.0;
};

/// One per node, in the graph's order, all parameters trained. `deferred_norms`: by node, whether
/// its normalisation is left to its reader (StepPlan::deferred_norms()); empty: of none.
std::vector<LayerCost> layer_costs(const Graph& graph, std::int64_t batch, Precision precision,
                                   const std::vector<bool>& deferred_norms = {});

}  // namespace tandem
