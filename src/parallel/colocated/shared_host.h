#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/mapped/shared_segment.h"
#include "parallel/placement/rank_topology.h"
#include "parallel/shared_device.h"

namespace tandem {

/// An arena of each rank of a host, in memory that all of them map.
struct SharedArenas {
  const std::byte* of(int member) const {
    return first + static_cast<std::size_t>(member) * stride;
  }

  const std::byte* first = nullptr;  ///< the first member's
  std::size_t stride = 0;            ///< bytes from one member's to the next one's
};

/// The ranks of one host as those of a shared device: its memory is /dev/shm's.
class SharedHost final : public SharedDevice {
 public:
  /// Collective over `world`, a host kind, which outlives it. Throws as SharedSegment does.
  SharedHost(Communicator& world, const RankTopology& topology);

  int members() const override { return topology_.local_size(); }
  int member() const override { return topology_.local_rank(); }
  /// Takes the room where each host's /dev/shm has it and some to spare for others, so that
  /// allocate() does not fail after all.
  bool has_room(std::span<const std::size_t> sizes) override;
  /// Of what has_room() took, else anew; then throws InputError on all ranks where there is none.
  /// Memory is not given back while this lives.
  std::byte* allocate(std::size_t bytes) override;
  std::byte* allocate_arena(std::size_t bytes) override;
  /// Where the members' arenas are of which allocate_arena() gave this member the one at `arena`;
  /// null where it gave none such.
  const SharedArenas* arenas_of(const void* arena) const;
  /// At once: a host's work is done when its call returns. Throws CommunicationTimeout that names
  /// the silent ranks.
  void wait_for_each_other() override;

 private:
  /// Collective: a new segment for allocate().
  void take(std::size_t bytes);
  std::int64_t& arrivals(int member) const;

  Communicator& world_;
  RankTopology topology_;
  SharedSegment counters_;  ///< how often each member has arrived, on a cache line of its own
  std::vector<std::unique_ptr<SharedSegment>> segments_;
  std::list<SharedArenas> arenas_;
  std::byte* room_ = nullptr;  ///< what allocate() gives next, of the last segment
  std::size_t left_ = 0;       ///< bytes there
  std::int64_t waits_ = 0;
};

}  // namespace tandem
