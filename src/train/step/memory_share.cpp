#include "train/step/memory_share.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "parallel/gather_text.h"

namespace tandem {

MemoryShare memory_share(const RankTopology& topology, std::span<const std::int64_t> free) {
  TANDEM_CHECK(free.size() == static_cast<std::size_t>(topology.size()), "{} values of {} ranks",
               free.size(), topology.size());
  const std::vector<int>& here = topology.ranks_on_device(topology.device_of(topology.rank()));
  std::int64_t least = free[static_cast<std::size_t>(here.front())];
  for (const int rank : here) least = std::min(least, free[static_cast<std::size_t>(rank)]);
  const auto ranks = static_cast<int>(here.size());
  return {.ranks = ranks, .bytes = static_cast<std::size_t>(least / ranks)};
}

std::optional<MemoryShare> measure_memory_share(Communicator& host, const AnyContext& context) {
  if (is_host(context)) return std::nullopt;
  const RankTopology topology = RankTopology::gather(host, this_place(device_uuid(context)));
  host.barrier();  // all have what they allocate before
  const std::optional<DeviceMemory> memory = device_memory(context);
  TANDEM_CHECK(memory, "a device without memory");
  const std::array mine{static_cast<std::int64_t>(memory->free)};
  return memory_share(topology, all_gather_values(host, mine));
}

}  // namespace tandem
