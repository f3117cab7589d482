#pragma once

#include "layers/conv_bn.h"
#include "layers/resident_tiles.h"

// Normalisations that are left to the reader (KernelRequest::defers_norm). Where one depthwise
// convolution alone reads a conv_bn's result, that need not be written: the depthwise kernels
// compute it from what they load, and see the same bits. It saves a pass that reads and writes the
// tensor, and the memory of one of the two. CUDA devices alone; internal.

namespace tandem {

/// Whether the kernels of both layers can do so, by their options: the maker ends in a
/// normalisation with ReLU, ReLU6 or SiLU, without a sum or join, and the reader is a depthwise
/// convolution, over `channels`, that the strips' kernels take.
bool can_defer_norm(const ConvBnOptions& maker, const ConvBnOptions& reader, std::int64_t channels);

/// Whether that saves time, or, with SiLU under a 3x3 window, memory for little time.
///
/// In evaluation always. In training the reader normalises twice, forward and for its weights'
/// gradient, and strips beside each other normalise the columns that they share each for
/// themselves: so not SiLU, of many instructions, under a 5x5 window. And not where the maker's
/// normalisation takes one kernel that holds the tensor in registers (resident_tiles.h): there only
/// the write would be saved, for a kernel more. `clusters`: the device's, batch_norm_clusters().
bool gains_by_deferring(const ConvBnOptions& maker, const KernelRequest& maker_request,
                        const ConvBnOptions& reader, const ResidentClusters& clusters);

/// The same on this device; never on a CPU.
bool gains_by_deferring(const CpuContext& context, const ConvBnOptions& maker,
                        const KernelRequest& maker_request, const ConvBnOptions& reader);
bool gains_by_deferring(const CudaContext& context, const ConvBnOptions& maker,
                        const KernelRequest& maker_request, const ConvBnOptions& reader);

/// What the maker leaves to do.
DeferredNorm deferred_norm(const ConvBnOptions& maker, const KernelRequest& maker_request);

}  // namespace tandem
