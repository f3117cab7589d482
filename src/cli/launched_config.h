#pragma once

#include <string>
#include <vector>

#include "train/run_config.h"

namespace tandem {

/// The config of a command line `train CONFIG ...` or `bench CONFIG ...`, with its --set. Throws
/// InputError where it does not read.
RunConfig launched_config(const std::vector<std::string>& command);

}  // namespace tandem
