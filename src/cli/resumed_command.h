#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/job_supervisor.h"

namespace tandem {

/// How a job whose command is `first` goes on where it fails: `train` with --resume, where its
/// folder holds a sound checkpoint, anything else anew. Looks at the folder now: a run that is
/// there, and that `first` does not go on with, is never this job's. What is returned throws
/// InputError where checkpoints are there and all are damaged.
std::function<Continuation(const std::vector<std::string>& command)> way_on_of(
    const std::vector<std::string>& first);

}  // namespace tandem
