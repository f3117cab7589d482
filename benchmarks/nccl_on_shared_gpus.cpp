#include "nccl_on_shared_gpus.h"

#include <algorithm>
#include <cstdlib>

#include "parallel/nccl/nccl_check.h"

namespace tandem {

bool NcclOnSharedGpus::is_available() {
  constexpr int first = 23000;  // NCCL_VERSION(2, 30, 0)
  int version = 0;
  check_nccl(ncclGetVersion(&version), nullptr, "in ncclGetVersion");
  return version >= first;
}

void NcclOnSharedGpus::enable() { setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1); }

// The ranks' blocks of threads wait for each other, but NCCL 2.30.7 does not see to it that those
// of all ranks of a GPU find room there at once: with its own choice 1 MB over four ranks never
// ends.
NcclOnSharedGpus::NcclOnSharedGpus(Communicator& world, CudaContext& gpu, int ranks_of_gpu)
    : gpu_(gpu),
      group_(world, {.max_ctas = std::min(gpu.device().multiprocessors / ranks_of_gpu,
                                          DeviceLinkOptions::most_ctas)}) {}

void NcclOnSharedGpus::sum_async(const Tensor& values) {
  gpu_.activate();
  group_.run("all_reduce", [&](ncclComm_t comm) {
    return ncclAllReduce(values.raw(), values.raw(), static_cast<std::size_t>(values.elements()),
                         ncclFloat32, ncclSum, comm, gpu_.stream());
  });
}

}  // namespace tandem
