#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "train/run_config.h"

namespace tandem {

/// How a run's processes lie on hosts whose CPUs compute; the same on each host.
struct HostPlaces {
  int processes = 1;  ///< on each host
  int hosts = 1;
};

/// What training takes of one host's memory at least, in bytes.
struct HostMemoryNeed {
  HostPlaces places;
  std::int64_t batch = 1;       ///< samples that a process takes at once
  std::size_t shared = 0;       ///< parameters and optimizer state that the processes share
  std::size_t state = 0;        ///< of each process: gradients, and what it does not share
  std::size_t activations = 0;  ///< of each process

  std::size_t bytes() const {
    return shared + static_cast<std::size_t>(places.processes) * (state + activations);
  }
};

/// Of a run, told by its config, and where the data is a folder by how many classes that has: the
/// model is laid out, but no kernel made. What kernels, loaders and libraries take comes on top.
/// Nothing where the batch cannot be dealt to the processes, or nothing is trained, which the ranks
/// tell. Throws InputError where the model does not load, or the folder cannot be listed.
std::optional<HostMemoryNeed> least_host_memory(const RunConfig& config, const HostPlaces& places);

/// Throws InputError where the need exceeds what is available on a host: one line with both, and
/// how many processes of each host fit, the run's batch being dealt to fewer, or else about how
/// many samples at once do.
void require_host_memory(const RunConfig& config, const HostPlaces& places, std::size_t available);

}  // namespace tandem
