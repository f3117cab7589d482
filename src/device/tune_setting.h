#pragma once

#include <string_view>

namespace tandem {

/// TANDEM_TUNE of the environment, how kernels are chosen: "off", "own" or "borrow" in place of
/// timing (layers/tuning/plan_tuner.h); empty, also where it is not set: by timing. Throws
/// InputError where it is something else.
std::string_view tune_setting();

}  // namespace tandem
