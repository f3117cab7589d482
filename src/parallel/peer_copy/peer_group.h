#pragma once

// Included by sources only.

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "parallel/colocated/device_barrier.h"
#include "parallel/colocated/ipc_memory.h"
#include "parallel/communicator.h"
#include "parallel/rank_topology.h"

namespace tandem {

class CudaContext;

/// Collective: whether each rank, all on one host, can map memory of all others' GPUs. Tried, since
/// a process may see its own GPU alone and still map others', or be forbidden what GPUs could do.
bool gpus_reach_each_other(Communicator& host, CudaContext& context, const RankTopology& topology);

/// An arena that all ranks have attached, and staging memory of the same size beside it
/// (parallel/peer_copy/copy_layout.h).
struct PeerArena {
  std::int64_t elements = 0;
  std::vector<float*> arenas;    ///< by rank, as this one maps them
  std::vector<float*> stagings;  ///< by rank, as this one maps them
  std::unique_ptr<OwnMemory> own_staging;
  std::vector<PeerMemory> mapped;
};

/// Ranks on GPUs that reach each other, and the memory that they map of each other.
class PeerGroup {
 public:
  /// Collective over `host`, whose ranks all belong to the group. Both references outlive it.
  PeerGroup(Communicator& host, CudaContext& context);

  int ranks() const { return host_.size(); }
  int rank() const { return host_.rank(); }
  DeviceBarrier& barrier() { return *barrier_; }

  /// Collective. 16-byte aligned arenas of the same size.
  void attach(float* arena, std::int64_t elements);
  /// The attached arena that holds the slice. Throws Error where none does.
  const PeerArena& attached(const Tensor& slice) const;
  /// Collective: unmaps what attach() mapped; the arena may be freed afterwards. The device no
  /// longer works on it.
  void detach(const float* arena);
  /// Collective: unmaps all memory of the others. What is left is good for being destroyed.
  void unmap();
  /// Instead, where the others do not come: leaves this rank's memory allocated, which they may
  /// still use.
  void leave();

 private:
  const float* own(const PeerArena& attached) const {
    return attached.arenas[static_cast<std::size_t>(rank())];
  }

  Communicator& host_;
  CudaContext& context_;
  OwnMemory control_;
  std::vector<PeerMemory> mapped_;
  std::unique_ptr<DeviceBarrier> barrier_;
  std::list<PeerArena> arenas_;
};

}  // namespace tandem
