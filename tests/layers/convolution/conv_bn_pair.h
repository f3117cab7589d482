#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// Two conv_bn layers as one, for tests: a maker and a depthwise reader that takes over the maker's
/// normalisation where the device can (layers/convolution/deferred_norm.h). On a CPU they run as
/// ever. Keys: the two layers' own, in the tables `maker` and `reader`.
LayerPtr make_conv_bn_pair(const ConfigTable& keys);

}  // namespace tandem
