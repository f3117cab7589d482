#pragma once

#include "layers/convolution/conv2d.h"

namespace tandem {

std::unique_ptr<LayerKernel> make_conv2d_kernel(CudaContext& context, const Conv2dOptions& options,
                                                const KernelRequest& request);

}  // namespace tandem
