#pragma once

#include <string>
#include <vector>

#include "launch/job_supervisor.h"

namespace tandem {

/// How a command that failed goes on: `train` with --resume, where its folder holds a sound
/// checkpoint, anything else anew. Throws InputError where checkpoints are there and all are
/// damaged.
Continuation resumed_command(const std::vector<std::string>& command);

}  // namespace tandem
