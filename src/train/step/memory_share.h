#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "device/any_context.h"
#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

/// One rank's part of what is free on its device.
struct MemoryShare {
  int ranks = 1;          ///< that share the device
  std::size_t bytes = 0;  ///< as much for each of them
};

/// Of this rank, where `free` holds what every rank sees free on its device: equal parts of the
/// least that any rank of the device sees.
MemoryShare memory_share(const RankTopology& topology, std::span<const std::int64_t> free);

/// Collective, over a host kind: the shares at one moment at which no rank allocates. Nothing where
/// the ranks compute on the CPU.
std::optional<MemoryShare> measure_memory_share(Communicator& host, const AnyContext& context);

}  // namespace tandem
