#pragma once

#include "graph/step_plan.h"
#include "train/run_config.h"

namespace tandem {

/// Whether each parameter can be updated once its own gradient and the step's loss are known: not
/// where gradients are clipped by the norm of all of them or scaled (fp16), of which any may have
/// overflowed, nor with LARS, which updates all at once.
bool updates_one_by_one(const RunConfig& config);

/// Where the gradients of a run of so many ranks lie. A single rank with a GPU needs no gradients
/// of a whole model: it updates each bucket of parameters while backward goes on
/// (train.update_in_backward), and has gradients of a bucket or two at a time. Where it cannot, it
/// lends the memory of its gradients until backward writes them. Of several ranks others may still
/// read this one's gradients, or write their sums there, when its next step begins; and a host
/// names the gradient that was not finite after the next forward.
GradientMemory gradient_memory(const RunConfig& config, int ranks, bool on_device);

}  // namespace tandem
