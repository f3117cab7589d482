#pragma once

#include <string_view>

namespace tandem {

/// How the names begin of what a checkpoint keeps beside a model's weights, so that no layer's name
/// may: the optimizer's state, and the weights' moving average.
inline constexpr std::string_view optimizer_prefix = "optimizer.";
inline constexpr std::string_view average_prefix = "ema.";

}  // namespace tandem
