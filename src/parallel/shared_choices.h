#pragma once

#include <functional>

#include "device/kernel_choices.h"
#include "parallel/communicator.h"

namespace tandem {

/// Runs `make`, which takes kernels by `choices`, on all ranks, so that those with the same kind of
/// choices take the same kernels. The lowest rank of a kind leads: what is not chosen yet it alone
/// chooses, while the others of the kind, whose devices are then still, wait for its choices. Where
/// nothing is missing the ranks tell each other what they have and no more. What a rank misses even
/// after that, as its leader had no use for it, it chooses itself. What was chosen is in its file
/// before this returns.
///
/// Collective over `communicator`, a host kind; `make` communicates with nobody. `choices` null, on
/// all ranks: nothing is chosen, and nothing exchanged.
void choose_together(Communicator& communicator, KernelChoices* choices,
                     const std::function<void()>& make);

}  // namespace tandem
