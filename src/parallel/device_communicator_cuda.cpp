#include <cstdlib>

#include "parallel/colocated/colocated_cuda.h"
#include "parallel/colocated/colocated_sum.h"
#include "parallel/device_communicator.h"
#include "parallel/mps_check.h"
#include "parallel/nccl_communicator.h"
#include "parallel/peer_copy/peer_copy_communicator.h"
#include "parallel/peer_copy/peer_trial.h"
#include "parallel/rank_topology.h"
#include "parallel/self_communicator.h"

namespace tandem {
namespace {

/// Whether NCCL is told, as on machines where copies between GPUs hang or go wrong, to make none.
bool p2p_is_disabled() {
  const char* value = std::getenv("NCCL_P2P_DISABLE");
  return value != nullptr && std::strtol(value, nullptr, 10) != 0;
}

/// Collective, for ranks with a GPU each.
bool exchanges_by_copies(Communicator& host, CudaContext& gpu, const RankTopology& topology,
                         ExchangeKind chosen) {
  if (chosen == ExchangeKind::nccl) return false;
  if (chosen == ExchangeKind::automatic) {
    std::int32_t tried = p2p_is_disabled() ? 0 : 1;
    host.all_reduce(Tensor(&tried, {1}, DType::i32), ReduceOp::min);
    if (tried == 0) return false;
  }
  const bool possible = host.size() <= most_members && gpus_reach_each_other(host, gpu, topology);
  if (!possible && chosen == ExchangeKind::copy) {
    input_error(
        "exchange by copies: not all ranks' GPUs can copy into each other's memory, as those of "
        "one "
        "host mostly can; leave parallel.exchange out, or choose \"nccl\"");
  }
  return possible;
}

}  // namespace

std::unique_ptr<Communicator> make_device_communicator(AnyContext& context, Communicator& host,
                                                       const DeviceLinkOptions& options,
                                                       ReductionKind kind) {
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return nullptr;
  if (host.size() == 1) return std::make_unique<SelfCommunicator>();
  const RankTopology topology = RankTopology::gather(host, this_place(gpu->device().uuid));
  const bool shared = topology.devices() < host.size();
  if (kind == ReductionKind::flat || (kind == ReductionKind::automatic && !shared)) {
    if (!shared && exchanges_by_copies(host, *gpu, topology, options.exchange)) {
      return std::make_unique<PeerCopyCommunicator>(host, *gpu, options);
    }
    return std::make_unique<NcclCommunicator>(host, *gpu, options);
  }
  if (options.exchange == ExchangeKind::copy) {
    input_error(
        "exchange by copies: gradients are summed on two levels here, whose leaders use NCCL; "
        "leave parallel.exchange out, or start one rank per GPU without parallel.reduction");
  }
  const bool mps = ranks_run_under_mps(host, topology);
  return std::make_unique<ColocatedCudaCommunicator>(host, *gpu, topology, mps, options);
}

}  // namespace tandem
