#pragma once

#include <string>
#include <vector>

#include "train/run_config.h"

namespace tandem {

// The command that `tandem launch` starts on each rank: `train CONFIG ...` and the like.

/// Throws InputError where it is none of train, bench and eval, or where the ranks would not
/// understand its options, so that nothing starts for a slip of the pen.
void require_launched_command(const std::vector<std::string>& command);

/// The config of a command line `train CONFIG ...` or `bench CONFIG ...`, with its --set. Throws as
/// read_rank_config() does, InputError where it does not read.
RunConfig launched_config(const std::vector<std::string>& command);

/// train.device of a command line's config. Throws InputError where that of `train` or `bench` does
/// not read; of an eval, of which each rank says so, it is "auto" then. A disk that does not answer
/// is told as await_rank_files() does.
DeviceKind launched_device(const std::vector<std::string>& command);

}  // namespace tandem
