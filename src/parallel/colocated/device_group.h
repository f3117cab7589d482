#pragma once

// Included by sources only.

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "parallel/colocated/colocated_sum.h"
#include "parallel/communicator.h"
#include "parallel/mapped/device_barrier.h"
#include "parallel/mapped/ipc_memory.h"

namespace tandem {

/// Memory of the leader's that all processes of a GPU use.
struct CommonMemory {
  std::byte* data = nullptr;
  DeviceBuffer own;                    // the leader's
  std::unique_ptr<PeerMemory> mapped;  // the others'
};

/// An arena that all processes of a GPU have attached.
struct AttachedArena {
  const float* arena = nullptr;  ///< this process's
  std::int64_t elements = 0;
  MemberMemory arenas;  ///< by member
  std::vector<PeerMemory> mapped;
  CommonMemory common;
  float* sums = nullptr;  ///< of as many elements, in `common`
};

/// The processes of a world that share a GPU, and the memory that they map of each other. The first
/// of them is the leader.
class DeviceGroup {
 public:
  /// Bytes of a slot: a place for each process and channel in which it puts what others read.
  static constexpr std::int64_t slot_bytes = std::int64_t{4} << 20;
  /// Channels that have slots: those below.
  static constexpr int slot_channels = 2;

  /// Collective over `host`, whose ranks all call it. `ranks`: those of this GPU, ascending. Both
  /// references outlive it.
  DeviceGroup(Communicator& host, CudaContext& context, const std::vector<int>& ranks,
              DeviceOrder order);

  int members() const { return static_cast<int>(ranks_.size()); }
  int member() const { return member_; }
  bool leads() const { return member_ == 0; }
  DeviceBarrier& barrier() { return *barrier_; }
  /// DeviceBarrier::late_members(), as ranks of the world.
  std::vector<int> late_ranks() const;

  void* slot(int member, int channel) const;
  const MemberMemory& slots(int channel) const { return slots_[static_cast<std::size_t>(channel)]; }

  /// Collective. 16-byte aligned arenas of the same size.
  const AttachedArena& attach(float* arena, std::int64_t elements);
  /// The attached arena that holds the slice. Throws Error where none does.
  const AttachedArena& attached(const Tensor& slice) const;
  /// Collective: unmaps what attach() mapped; the arena may be freed afterwards. The device no
  /// longer works on it.
  void detach(const float* arena);
  /// Collective: zeroed memory that all processes of the GPU use, until unmap().
  std::byte* allocate_common(std::size_t bytes);
  /// Collective: unmaps all memory of the others. What is left is good for being destroyed.
  void unmap();
  /// Instead, where the others do not come: leaves this process's memory allocated, which they may
  /// still use.
  void leave();

 private:
  template <typename T>
  std::vector<T> exchange(const T& mine);
  void map_members(DeviceOrder order);
  CommonMemory make_common(std::size_t bytes);
  void share(CommonMemory& common);
  void map_arenas(AttachedArena& attached);

  Communicator& host_;
  CudaContext& context_;
  std::vector<int> ranks_;
  int member_;
  DeviceBuffer own_;  // control words, slots
  std::vector<PeerMemory> mapped_;
  std::vector<std::byte*> memory_;  // as own_, by member
  MemberMemory slots_[slot_channels];
  std::unique_ptr<DeviceBarrier> barrier_;
  std::list<AttachedArena> arenas_;
  std::vector<CommonMemory> common_;
};

}  // namespace tandem
