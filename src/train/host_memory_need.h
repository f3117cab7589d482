#pragma once

#include "train/run_memory_need.h"

namespace tandem {

/// How a run's processes lie on hosts whose CPUs compute; the same on each host.
struct HostPlaces {
  int processes = 1;  ///< on each host
  int hosts = 1;
};

/// least_memory() of one host's.
std::optional<RunMemoryNeed> least_host_memory(const RunConfig& config, const HostPlaces& places);

/// Throws InputError where the need exceeds what is available on a host: one line with both, and
/// how many processes of each host fit, the run's batch being dealt to fewer, or else about how
/// many samples at once do.
void require_host_memory(const RunConfig& config, const HostPlaces& places, std::size_t available);

}  // namespace tandem
