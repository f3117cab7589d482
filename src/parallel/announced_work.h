#pragma once

#include <functional>

#include "parallel/communicator.h"

namespace tandem {

/// Runs `work`, which the other ranks wait for and which may take longer than their time-outs, such
/// as writing a checkpoint to a slow disk; they learn that this rank is at it. Not collective.
/// `work` runs on another thread and must not communicate; what it throws is thrown here.
void run_announced(Communicator& communicator, const std::function<void()>& work);

}  // namespace tandem
