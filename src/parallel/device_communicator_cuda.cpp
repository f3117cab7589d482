#include "parallel/colocated/colocated_cuda.h"
#include "parallel/device_communicator.h"
#include "parallel/mps_check.h"
#include "parallel/nccl_communicator.h"
#include "parallel/rank_topology.h"
#include "parallel/self_communicator.h"

namespace tandem {

std::unique_ptr<Communicator> make_device_communicator(AnyContext& context, Communicator& host,
                                                       const DeviceLinkOptions& options,
                                                       ReductionKind kind) {
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return nullptr;
  if (host.size() == 1) return std::make_unique<SelfCommunicator>();
  const RankTopology topology = RankTopology::gather(host, this_place(gpu->device().uuid));
  const bool shared = topology.devices() < host.size();
  if (kind == ReductionKind::flat || (kind == ReductionKind::automatic && !shared)) {
    return std::make_unique<NcclCommunicator>(host, *gpu, options);
  }
  const bool mps = ranks_run_under_mps(host, topology);
  return std::make_unique<ColocatedCudaCommunicator>(host, *gpu, topology, mps, options);
}

}  // namespace tandem
