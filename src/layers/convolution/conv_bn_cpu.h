#pragma once

#include "device/cpu_context.h"
#include "layers/convolution/conv_bn.h"

namespace tandem {

std::unique_ptr<LayerKernel> make_conv_bn_kernel(CpuContext& context, const ConvBnOptions& options,
                                                 const KernelRequest& request);

/// With options.join.
std::unique_ptr<LayerKernel> make_joined_conv_bn_kernel(CpuContext& context,
                                                        const ConvBnOptions& options,
                                                        const KernelRequest& request);

}  // namespace tandem
