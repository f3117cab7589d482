#pragma once

#include "device/cuda_context.h"
#include "parallel/nccl/nccl_group.h"
#include "tensor/tensor.h"

namespace tandem {

/// NCCL's own way to have several ranks of a communicator on one GPU (NCCL_MULTI_RANK_GPU_ENABLE,
/// experimental, NCCL 2.30 and later), to compare Tandem's sum over such ranks with.
class NcclOnSharedGpus {
 public:
  /// Whether the NCCL that is loaded has it.
  static bool is_available();
  /// Lets NCCL do so in this process; before its first communicator, without which it changes
  /// nothing.
  static void enable();

  /// Collective over `world`, a host kind, of whose ranks no GPU has more than `ranks_of_gpu`.
  /// Throws SystemError where NCCL cannot.
  NcclOnSharedGpus(Communicator& world, CudaContext& gpu, int ranks_of_gpu);

  /// Enqueues the sum of all ranks' `values`, of f32, into them on the GPU's stream.
  void sum_async(const Tensor& values);

 private:
  CudaContext& gpu_;
  NcclGroup group_;
};

}  // namespace tandem
