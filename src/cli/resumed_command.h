#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "launch/job_supervisor.h"

namespace tandem {

/// Device, number and time of the last change (seconds, nanoseconds).
using FileIdentity = std::array<std::uint64_t, 4>;
using CheckpointFiles = std::set<FileIdentity>;

/// The step checkpoints that a command which names one to go on from finds in its folder; of any
/// other command none.
CheckpointFiles checkpoints_before(const std::vector<std::string>& command);

/// How a command that failed goes on: `train` with --resume, where its folder holds a sound
/// checkpoint, anything else anew. One that names an earlier checkpoint goes on from that again
/// while the newest is one of `before`: it came to nothing before it could set the later ones
/// aside. Throws InputError where checkpoints are there and all are damaged.
Continuation resumed_command(const std::vector<std::string>& command,
                             const CheckpointFiles& before);

/// Throws InputError where a command is about to train in the folder of a run that it does not go
/// on with, as its ranks will: a job that came to nothing before they did would else be restarted
/// from that run's checkpoint.
void require_fresh_folder(const std::vector<std::string>& command);

}  // namespace tandem
