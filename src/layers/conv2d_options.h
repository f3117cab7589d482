#pragma once

#include <cstdint>

#include "layers/window.h"

namespace tandem {

/// How a convolution starts.
enum class ConvInit : std::uint8_t {
  /// Weight Kaiming normal with fan-out and gain sqrt(2) (He et al. 2015), bias zero: torchvision's
  /// ResNet, MobileNet and EfficientNet.
  kaiming,
  /// Weight and bias uniform in 1/sqrt(fan-in), as torch.nn.Conv2d's: torchvision's ShuffleNet.
  fan_in,
};

struct Conv2dOptions {
  std::int64_t out_channels = 1;
  Window window{};
  std::int64_t groups = 1;
  bool bias = false;
  ConvInit init = ConvInit::kaiming;
};

}  // namespace tandem
