#include <cstdlib>
#include <string_view>

#include "parallel/colocated/colocated_cuda.h"
#include "parallel/device_communicator.h"
#include "parallel/direct/direct_communicator.h"
#include "parallel/direct/peer_trial.h"
#include "parallel/mapped/members.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/placement/device_choice.h"
#include "parallel/placement/mps_check.h"
#include "parallel/placement/rank_topology.h"
#include "parallel/self_communicator.h"

namespace tandem {
namespace {

/// Kernels that wait stay on multiprocessors that all ranks of a GPU may use. Where each may use
/// few, a rank whose next kernel wants whole ones finds none, and those that wait for it go on
/// waiting: eight ranks with 16 each did not end, eight with 24 did.
constexpr int fewest_for_waiting_kernels = 24;

/// Whether NCCL is told, as on machines where copies between GPUs hang or go wrong, to make none.
bool p2p_is_disabled() {
  const char* value = std::getenv("NCCL_P2P_DISABLE");
  return value != nullptr && std::strtol(value, nullptr, 10) != 0;
}

/// Collective: whether it is so on every rank.
bool on_all(Communicator& host, bool here) {
  std::int32_t all = here ? 1 : 0;
  host.all_reduce(Tensor(&all, {1}, DType::i32), ReduceOp::min);
  return all != 0;
}

/// Collective, for ranks on several GPUs. `at_once`: whether this rank takes no turns on its GPU.
bool exchanges_directly(Communicator& host, CudaContext& gpu, const RankTopology& topology,
                        ExchangeKind chosen, bool at_once = true) {
  if (chosen == ExchangeKind::nccl) return false;
  if (chosen == ExchangeKind::automatic) {
    if (!on_all(host, !p2p_is_disabled())) return false;
  }
  std::string_view obstacle;
  if (host.size() > most_members) {
    obstacle = "there are too many ranks";
  } else if (!on_all(host, at_once)) {
    obstacle =
        "ranks that share a GPU without MPS, or have few multiprocessors of it each, would hold "
        "each other up";
  } else if (!gpus_reach_each_other(host, gpu, topology)) {
    obstacle = "not all GPUs reach each other's memory, as those of one host mostly do";
  }
  if (!obstacle.empty() && chosen == ExchangeKind::direct) {
    input_error("direct exchange: {}; leave parallel.exchange out, or choose \"nccl\"", obstacle);
  }
  return obstacle.empty();
}

}  // namespace

std::unique_ptr<Communicator> make_device_communicator(AnyContext& context, Communicator& host,
                                                       const DeviceLinkOptions& options,
                                                       ReductionKind kind) {
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return nullptr;
  if (host.size() == 1) return std::make_unique<SelfCommunicator>(host);
  const RankTopology topology = RankTopology::gather(host, this_place(gpu->device().uuid));
  check_one_instance_per_card(host, topology, gpu->device().card);
  const bool shared = topology.devices() < host.size();
  if (kind == ReductionKind::flat || (kind == ReductionKind::automatic && !shared)) {
    if (!shared && exchanges_directly(host, *gpu, topology, options.exchange)) {
      return std::make_unique<DirectCommunicator>(host, *gpu, options);
    }
    return std::make_unique<NcclCommunicator>(host, *gpu, options);
  }
  // Asked of all, whoever runs under MPS: that may be some GPUs' ranks alone.
  const bool enough = on_all(host, gpu->device().multiprocessors >= fewest_for_waiting_kernels);
  const bool under_mps = ranks_run_under_mps(host, topology, gpu->device().under_mps);
  const bool kernels_wait = under_mps && enough;
  DeviceLinkOptions links = options;
  const bool at_once = kernels_wait || topology.colocated_size() == 1;
  const bool direct =
      topology.devices() > 1 && exchanges_directly(host, *gpu, topology, options.exchange, at_once);
  links.exchange = direct ? ExchangeKind::direct : ExchangeKind::nccl;
  const bool nobody_sliced = on_all(host, under_mps || topology.colocated_size() == 1);
  const GpuSharing sharing{.kernels_wait = kernels_wait, .time_sliced = !nobody_sliced};
  return std::make_unique<ColocatedCudaCommunicator>(host, *gpu, topology, sharing, links);
}

}  // namespace tandem
