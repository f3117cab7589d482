#pragma once

#include <string>

#include "train/run_config.h"

namespace tandem {

/// Throws InputError where --gpus says that the ranks are to compute on CPUs, and the config, by
/// train.device, that they compute on GPUs alone.
void require_agreeing_gpus(const std::string& gpus, DeviceKind device);

}  // namespace tandem
