#pragma once

// Included by sources only.

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "device/device_buffer.h"
#include "parallel/communicator.h"
#include "parallel/mapped/device_barrier.h"
#include "parallel/mapped/ipc_memory.h"
#include "parallel/placement/rank_topology.h"
#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// An arena on each GPU.
struct PeerArena {
  std::int64_t elements = 0;
  void* allocation = nullptr;  ///< that this GPU's lies in; null on ranks that do not own it
  std::vector<float*> arenas;  ///< by GPU, as this rank maps them
  std::vector<PeerMemory> mapped;
};

/// Who owns the memory of a PeerGroup's GPUs.
struct PeerOwners {
  /// Each rank that of a GPU of its own.
  static PeerOwners each(const Communicator& host);
  /// Of the ranks that share a GPU the lowest one.
  static PeerOwners leaders(const RankTopology& topology);

  std::vector<int> ranks;  ///< by GPU
  int gpu = 0;             ///< this rank's, an index into `ranks`
};

/// Ranks on GPUs that reach each other, and the memory that they map of each other.
class PeerGroup {
 public:
  /// Collective over `host`, whose ranks all belong to the group. Both references outlive it.
  PeerGroup(Communicator& host, CudaContext& context, PeerOwners owners);

  int gpus() const { return static_cast<int>(owners_.ranks.size()); }
  int gpu() const { return owners_.gpu; }
  /// Its members are the ranks of the group.
  DeviceBarrier& barrier() { return *barrier_; }

  /// Collective. `arena`: this GPU's, as this rank maps it: 16-byte aligned, of the same size on
  /// all GPUs, and each in one CudaContext::allocate() of its owner's.
  void attach(float* arena, std::int64_t elements);
  /// The attached arena that holds the slice. Throws Error where none does.
  const PeerArena& attached(const Tensor& slice) const;
  /// Collective: unmaps what attach() mapped; the arena may be freed afterwards. The device no
  /// longer works on it.
  void detach(const float* arena);
  /// Collective: unmaps all memory of the others. What is left is good for being destroyed.
  void unmap();
  /// Instead, where the others do not come: leaves this rank's memory allocated, arenas too, for
  /// the others' devices may still write there. Before arenas are freed; more than once does no
  /// harm.
  void leave();

 private:
  bool owns() const { return owners_.ranks[static_cast<std::size_t>(gpu())] == host_.rank(); }
  void map(PeerArena& attached, float* arena);
  void leave(const PeerArena& attached);
  void make_barrier();
  const float* own(const PeerArena& attached) const {
    return attached.arenas[static_cast<std::size_t>(gpu())];
  }

  Communicator& host_;
  CudaContext& context_;
  PeerOwners owners_;
  DeviceBuffer control_;
  std::vector<PeerMemory> mapped_;
  std::unique_ptr<DeviceBarrier> barrier_;
  std::list<PeerArena> arenas_;
};

}  // namespace tandem
