#pragma once

#include "graph/blocks.h"

namespace tandem {

/// `plain_stage`: `count` times a 3x3 convolution of `out` channels, normalisation and ReLU, as in
/// VGG with normalisation (Simonyan and Zisserman 2015), the first with `stride` (1). Parameters
/// are name.0.conv.weight, name.0.norm.weight, name.0.norm.bias, name.1....
int build_plain_stage(const BlockRequest& request);

}  // namespace tandem
