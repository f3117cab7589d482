#include <cstdlib>

#include "parallel/colocated/colocated_cuda.h"
#include "parallel/colocated/colocated_sum.h"
#include "parallel/device_communicator.h"
#include "parallel/direct/direct_communicator.h"
#include "parallel/direct/peer_trial.h"
#include "parallel/mps_check.h"
#include "parallel/nccl_communicator.h"
#include "parallel/rank_topology.h"
#include "parallel/self_communicator.h"

namespace tandem {
namespace {

/// Whether NCCL is told, as on machines where copies between GPUs hang or go wrong, to make none.
bool p2p_is_disabled() {
  const char* value = std::getenv("NCCL_P2P_DISABLE");
  return value != nullptr && std::strtol(value, nullptr, 10) != 0;
}

/// Collective, for ranks on several GPUs. `at_once`: whether those of a GPU are on it at the same
/// time.
bool exchanges_directly(Communicator& host, CudaContext& gpu, const RankTopology& topology,
                        ExchangeKind chosen, bool at_once = true) {
  if (chosen == ExchangeKind::nccl) return false;
  if (chosen == ExchangeKind::automatic) {
    std::int32_t tried = p2p_is_disabled() ? 0 : 1;
    host.all_reduce(Tensor(&tried, {1}, DType::i32), ReduceOp::min);
    if (tried == 0) return false;
  }
  const bool possible =
      at_once && host.size() <= most_members && gpus_reach_each_other(host, gpu, topology);
  if (!possible && chosen == ExchangeKind::direct) {
    input_error("direct exchange: {}; leave parallel.exchange out, or choose \"nccl\"",
                at_once ? "not all GPUs reach each other's memory, as those of one host mostly do"
                        : "ranks that share a GPU without MPS would use up each other's turns");
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
    if (!shared && exchanges_directly(host, *gpu, topology, options.exchange)) {
      return std::make_unique<DirectCommunicator>(host, *gpu, options);
    }
    return std::make_unique<NcclCommunicator>(host, *gpu, options);
  }
  const bool mps = ranks_run_under_mps(host, topology);
  DeviceLinkOptions links = options;
  const bool direct = topology.devices() > 1 &&
                      exchanges_directly(host, *gpu, topology, options.exchange, mps || !shared);
  links.exchange = direct ? ExchangeKind::direct : ExchangeKind::nccl;
  return std::make_unique<ColocatedCudaCommunicator>(host, *gpu, topology, mps, links);
}

}  // namespace tandem
