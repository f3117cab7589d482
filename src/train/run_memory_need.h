#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/run_config.h"

// What training takes of a memory is told before any rank starts: of a host's
// (train/host_memory_need.h) and of a GPU's (train/device_memory_need.h). Here is what they have in
// common.

namespace tandem {

/// How a run's processes lie on memories; the same on each.
struct MemoryPlaces {
  enum class Kind : std::uint8_t { host, device };
  Kind kind = Kind::host;
  int processes = 1;  ///< on each memory
  int memories = 1;   ///< of the run
};

/// What training takes of one memory at least, in bytes.
struct RunMemoryNeed {
  int processes = 1;       ///< that have it in common
  std::int64_t batch = 1;  ///< samples that a process takes at once
  std::size_t shared = 0;  ///< parameters and optimizer state that the processes share
  /// Of each process: gradients, running statistics, and what it does not share.
  std::size_t state = 0;
  std::size_t activations = 0;  ///< of each process

  std::size_t bytes() const {
    return shared + static_cast<std::size_t>(processes) * (state + activations);
  }
};

/// Of a run, told by its config, and where the data is a folder by how many classes that has: the
/// model is laid out in host memory, but no kernel or CUDA context is made. What kernels, loaders,
/// libraries and exchanges of gradients take comes on top. Nothing where the batch cannot be dealt
/// to the processes, or nothing is trained, which the ranks tell. Throws InputError where the model
/// does not load, or the folder cannot be listed.
std::optional<RunMemoryNeed> least_memory(const RunConfig& config, const MemoryPlaces& places);

/// Most processes in a memory that fit `room` bytes of it, fewer than `places` has, the run's batch
/// being dealt to them; 0: not one.
int fitting_processes(const RunConfig& config, const MemoryPlaces& places, std::size_t room);

/// "training does not fit the memory of WHERE: each of 4 PROCESSES needs at least ...", without
/// what there is.
std::string need_text(const RunConfig& config, const RunMemoryNeed& need, std::string_view where,
                      std::string_view processes);

/// fitting_samples_text() of what fits `room`, of which `need` is more. Gradients are kept between
/// micro-batches, as where train.accumulate is raised.
std::string fitting_samples_advice(const RunConfig& config, const MemoryPlaces& places,
                                   const RunMemoryNeed& need, std::size_t room);

}  // namespace tandem
