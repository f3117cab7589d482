#pragma once

#include <string>
#include <vector>

#include "launch/job_supervisor.h"

namespace tandem {

/// How a command that failed goes on: `train` with --resume, where its folder holds a sound
/// checkpoint, anything else anew. Throws InputError where checkpoints are there and all are
/// damaged.
Continuation resumed_command(const std::vector<std::string>& command);

/// Throws InputError where a command is about to train in the folder of a run that it does not go
/// on with, as its ranks will: a job that came to nothing before they did would else be restarted
/// from that run's checkpoint.
void require_fresh_folder(const std::vector<std::string>& command);

}  // namespace tandem
