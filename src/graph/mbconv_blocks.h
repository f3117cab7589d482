#pragma once

#include "graph/blocks.h"

namespace tandem {

/// `mbconv_stage`: `count` blocks of EfficientNet (Tan and Le 2019) with `out` channels, the first
/// with `stride` (1), named name.0, name.1, ...: 1x1 convolution to `expand` (6) times the channels
/// (none with 1), depthwise of `kernel` (3), squeeze and excitation to a quarter of the block's
/// input channels (Hu et al. 2018), 1x1 to `out`, SiLU behind the first two, and a sum with the
/// input where the shape stays.
///
/// Stochastic depth on the sum's branch (Huang et al. 2016) rises linearly over the model's blocks:
/// the model's rate times b / `blocks` for block b, the stage's first one being `first_block` (0);
/// `blocks` is `first_block` + `count` by default.
int build_mbconv_stage(const BlockRequest& request);

}  // namespace tandem
