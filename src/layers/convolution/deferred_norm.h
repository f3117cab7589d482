#pragma once

#include "layers/convolution/conv_bn.h"
#include "layers/normalisation/resident_tiles.h"

// Normalisations that are left to the reader (KernelRequest::defers_norm). Where one layer alone
// reads a conv_bn's result, and its kernels can compute that from what they load, it need not be
// written; they see the same bits. It saves a pass that reads and writes the tensor, and the memory
// of one of the two. CUDA devices alone; internal.

namespace tandem {

/// Layers whose kernels normalise what they read.
enum class NormReader : std::uint8_t {
  none,
  /// A depthwise convolution that the strips' kernels take, its first input: behind ReLU, ReLU6 or
  /// SiLU.
  depthwise,
  /// Maxima of 3x3 windows at a stride of two: behind ReLU.
  max_pool,
  /// A conv_bn that adds its second input: behind no activation.
  sum,
};

/// What the reader's kernels can do to its input `slot`, by the options of both layers: the maker,
/// of so many channels, ends in a normalisation, without a sum or join.
NormReader norm_reader(const ConvBnOptions& maker, const Layer& reader, std::size_t slot,
                       std::int64_t channels);

/// Whether a sum can finish what this maker leaves to it, with these requests: both have statistics
/// of the rank, or neither, so that both have the same groups of samples, by which the sum's kernel
/// takes scales and shifts from the table. Other readers take them by sample.
bool normalise_alike(const KernelRequest& maker, const KernelRequest& reader);

/// Whether that saves time, or, with SiLU under a 3x3 window, memory for little time. There is such
/// a reader.
///
/// In evaluation always. In training a depthwise reader normalises twice, forward and for its
/// weights' gradient, and strips beside each other normalise the columns that they share each for
/// themselves: so not SiLU, of many instructions, under a 5x5 window. And not where the maker's
/// normalisation takes one kernel that holds the tensor in registers
/// (layers/normalisation/resident_tiles.h): there only the write would be saved, for a kernel more.
/// `clusters`: the device's, batch_norm_clusters().
bool gains_by_deferring(const ConvBnOptions& maker, const KernelRequest& maker_request,
                        const Layer& reader, const ResidentClusters& clusters);

/// Whether it is for the memory that it gains: it costs a little time.
bool saves_memory_alone(const ConvBnOptions& maker, const KernelRequest& maker_request,
                        const Layer& reader);

/// The same as gains_by_deferring() on this device; never on a CPU. And not where a sum's kernel
/// would then read everything twice that it keeps else
/// (layers/normalisation/persistent_tiles_cuda.h).
bool gains_by_deferring(const CpuContext& context, const ConvBnOptions& maker,
                        const KernelRequest& maker_request, const Layer& reader, std::size_t slot);
bool gains_by_deferring(const CudaContext& context, const ConvBnOptions& maker,
                        const KernelRequest& maker_request, const Layer& reader, std::size_t slot);

/// What the maker leaves to do to the reader's input `slot`.
DeferredNorm deferred_norm(const ConvBnOptions& maker, const KernelRequest& maker_request,
                           std::size_t slot);

}  // namespace tandem
