#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/colocated/shared_segment.h"
#include "parallel/communicator.h"
#include "parallel/rank_topology.h"
#include "parallel/shared_device.h"

namespace tandem {

/// The ranks of one host as those of a shared device: its memory is /dev/shm's.
class SharedHost final : public SharedDevice {
 public:
  /// Collective over `world`, a host kind, which outlives it. Throws as SharedSegment does.
  SharedHost(Communicator& world, const RankTopology& topology);

  int members() const override { return topology_.local_size(); }
  int member() const override { return topology_.local_rank(); }
  /// By what is free in each host's /dev/shm now.
  bool has_room(std::size_t bytes) override;
  /// Throws InputError on all ranks where a host's /dev/shm has no room after all.
  std::byte* allocate(std::size_t bytes) override;
  /// At once: a host's work is done when its call returns. Throws CommunicationTimeout that names
  /// the silent ranks.
  void wait_for_each_other() override;

 private:
  std::int64_t& arrivals(int member) const;

  Communicator& world_;
  RankTopology topology_;
  SharedSegment counters_;  ///< how often each member has arrived, on a cache line of its own
  std::vector<std::unique_ptr<SharedSegment>> segments_;
  std::int64_t waits_ = 0;
};

}  // namespace tandem
