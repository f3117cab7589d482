#pragma once

// Included by sources only.

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "parallel/colocated/device_barrier.h"
#include "parallel/colocated/ipc_memory.h"
#include "parallel/communicator.h"
#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// An arena that all ranks have attached, and staging memory of the same size beside it
/// (parallel/peer_copy/copy_layout.h).
struct PeerArena {
  std::int64_t elements = 0;
  void* allocation = nullptr;    ///< that this rank's arena lies in
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

  /// Collective. 16-byte aligned arenas of the same size, each in one CudaContext::allocate().
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
  void map(PeerArena& attached, float* arena);
  void leave(const PeerArena& attached);
  void make_barrier();
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
