#pragma once

#include <string>
#include <vector>

#include "launch/host_slots.h"
#include "parallel/placement/launched_job.h"

namespace tandem {

/// CUDA_MPS_PIPE_DIRECTORY of processes that are to be no clients of MPS. Where nothing is set,
/// CUDA attaches to whatever daemon has its pipes in /tmp/nvidia-mps; where it can connect to none,
/// it goes on without (NVIDIA's manual of nvidia-cuda-mps-control). No daemon has pipes in a folder
/// that nobody makes, and CUDA finds there what it finds where no daemon was ever started.
constexpr const char* no_mps_daemon = "/nonexistent";

/// Those of the environment's variables that limit MPS clients and that a job's ranks on GPUs are
/// to have none of, nor the daemon that is started for them, which would make them its default:
/// what a rank gets of a GPU the command line says. None with the user's own daemon, whose settings
/// they belong to.
std::vector<std::string> foreign_mps_limits(const SlotRequest& request,
                                            const ReadEnvironment& environment);

/// Warns, in one line, of these and of a CUDA_MPS_PIPE_DIRECTORY that is not used.
void warn_of_foreign_mps(const SlotRequest& request, const ReadEnvironment& environment);

}  // namespace tandem
