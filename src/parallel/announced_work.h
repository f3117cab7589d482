#pragma once

#include <functional>

#include "base/file_work.h"
#include "parallel/communicator.h"

namespace tandem {

/// Runs `work`, which the other ranks wait for and which may take longer than their time-outs, such
/// as choosing kernels; they learn that this rank is at it. Not collective.
/// `work` runs on another thread and must not communicate; what it throws is thrown here. Nobody
/// but this process's HeartbeatWatch notices where it hangs, so it gives heartbeats.
void run_announced(Communicator& communicator, const std::function<void()>& work);

/// The same of work on files, as writing a checkpoint to a slow disk, for as long as something
/// moves, which is noticed here: await_file_work().
void run_announced(Communicator& communicator, const FilePatience& patience,
                   const std::function<void()>& work);

}  // namespace tandem
