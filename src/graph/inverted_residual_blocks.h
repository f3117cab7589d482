#pragma once

#include "graph/blocks.h"

namespace tandem {

/// `inverted_residual_stage`: `count` blocks of MobileNetV2 (Sandler et al. 2018, figure 4 d) with
/// `out` channels, the first with `stride` (1): 1x1 convolution to `expand` (6) times the channels,
/// depthwise 3x3, 1x1 to `out`, ReLU6 behind the first two, and a sum with the input where the
/// shape stays. With `expand` 1 there is no first convolution.
///
/// torchvision numbers the blocks of all stages in one sequence: the node's name ends in its first
/// block's number, and the others count on ("features.2", "features.3", ...).
int build_inverted_residual_stage(const BlockRequest& request);

}  // namespace tandem
