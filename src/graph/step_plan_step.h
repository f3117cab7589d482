#pragma once

#include "graph/step_plan.h"

// Included by step_plan's sources only.

namespace tandem {

/// Layers beside whose backward passes that which goes aside may run: it is done before the next
/// one begins, so that memory can be given away.
inline constexpr std::size_t side_lag = 4;

/// One layer with its kernel and all the tensors it touches.
struct StepPlan::Step {
  std::string name;
  std::unique_ptr<LayerKernel> kernel;
  std::vector<Tensor> inputs;
  std::vector<std::size_t> model_inputs;  // slots of `inputs` that are set before each forward
  Tensor output;
  Tensor output_gradient;
  std::vector<Tensor> input_gradients;
  /// Where another reader has written an input's gradient already and the layer cannot add to it:
  /// that gradient, to which input_gradients[i], a temporary, is added.
  std::vector<Tensor> add_into;
  std::vector<Tensor> parameters;
  std::vector<Tensor> weights;            // the parameters as products read them
  std::vector<Tensor> gradients;          // of frozen parameters: scratch that nobody reads
  std::vector<Tensor> partial_gradients;  // for accumulation: a pass's own, added to `gradients`
  std::vector<bool> trained;              // by parameter
  std::vector<Tensor> buffers;
  std::vector<std::size_t> parameter_indices;  // of the trained parameters
  /// Whether backward runs: there is a trained parameter here or below.
  bool backward = false;
  /// Whether the weights' gradients are computed aside.
  bool aside = false;
  /// Whether a group of passing gradients ends here, whose memory is then given away.
  bool ends_group = false;
  /// The layer that this one's normalisation is left to, or -1.
  int norm_left_to = -1;
  std::byte* saved = nullptr;
  std::byte* output_norm = nullptr;
  std::byte* input_norm = nullptr;  // of the layer that left it
  std::byte* forward_scratch = nullptr;
  std::byte* backward_scratch = nullptr;
  std::byte* handed_on = nullptr;
  std::byte* weights_scratch = nullptr;

  const std::vector<Tensor>& own_gradients(bool accumulate) const {
    return accumulate ? partial_gradients : gradients;
  }
};

}  // namespace tandem
