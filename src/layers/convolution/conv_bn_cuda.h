#pragma once

#include "layers/convolution/conv_bn.h"

namespace tandem {

std::unique_ptr<LayerKernel> make_conv_bn_kernel(CudaContext& context, const ConvBnOptions& options,
                                                 const KernelRequest& request);

}  // namespace tandem
