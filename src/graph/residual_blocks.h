#pragma once

#include "graph/blocks.h"

namespace tandem {

/// `count` residual blocks (He et al. 2016, "Deep residual learning", figure 5), the first with
/// `stride` (1), named name.0, name.1, ... A block whose shape changes gets a 1x1 convolution and
/// normalisation in its shortcut (`downsample.0`, `downsample.1`).
///
/// `basic_stage`: two 3x3 convolutions of `out` channels.
int build_basic_stage(const BlockRequest& request);
/// `bottleneck_stage`: 1x1, 3x3 and 1x1 convolutions, of width `out` and with 4 `out` output
/// channels; the stride in the 3x3 one as torchvision has it.
int build_bottleneck_stage(const BlockRequest& request);

}  // namespace tandem
