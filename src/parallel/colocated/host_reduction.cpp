#include "parallel/colocated/host_reduction.h"

#include "base/error.h"
#include "base/log.h"
#include "parallel/colocated/shared_memory_communicator.h"

namespace tandem {

std::unique_ptr<Communicator> make_host_reduction(Communicator& world, const RankTopology& topology,
                                                  ReductionKind kind) {
  if (world.size() == 1) return nullptr;
  const bool shared = topology.hosts() < topology.size();
  if (kind == ReductionKind::flat || (kind == ReductionKind::automatic && !shared)) return nullptr;
  try {
    return std::make_unique<SharedMemoryCommunicator>(world, topology);
  } catch (const InputError& error) {
    if (kind == ReductionKind::two_level) throw;
    if (world.rank() == 0) log_info("gradients are summed by MPI alone: {}", error.what());
    return nullptr;
  }
}

}  // namespace tandem
