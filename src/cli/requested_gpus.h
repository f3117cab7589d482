#pragma once

#include <string>

#include "train/run_config.h"

namespace tandem {

/// --gpus as `tandem launch` takes it for a run: what was `asked`, or, where that is empty, "none"
/// for a run that computes on CPUs alone, by train.device or for want of CUDA in this build, else
/// "all". Throws InputError where none was asked for a run that computes on GPUs alone.
std::string requested_gpus(const std::string& asked, DeviceKind device);

/// Warns of --gpus that names GPUs for a run that computes on CPUs alone.
void warn_of_idle_gpus(const std::string& gpus, DeviceKind device);

}  // namespace tandem
