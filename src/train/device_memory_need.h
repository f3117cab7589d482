#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "train/run_config.h"

namespace tandem {

/// How a run's processes lie on GPUs; the same on each.
struct DevicePlaces {
  int processes = 1;  ///< on each GPU
  int devices = 1;    ///< of all hosts
};

/// What training takes of one GPU's memory at least, in bytes.
struct DeviceMemoryNeed {
  DevicePlaces places;
  std::int64_t batch = 1;       ///< samples that a process takes at once
  std::size_t shared = 0;       ///< parameters and optimizer state that the processes share
  std::size_t state = 0;        ///< of each process: gradients, and what it does not share
  std::size_t activations = 0;  ///< of each process

  std::size_t bytes() const {
    return shared + static_cast<std::size_t>(places.processes) * (state + activations);
  }
};

/// Of a run, told by its config: the model is laid out in host memory, and no CUDA context is made.
/// CUDA contexts, kernels, libraries and what gradients travel through come on top. Nothing where
/// the batch cannot be dealt to the processes, or nothing is trained, which the ranks tell. Throws
/// InputError where the model does not load, or the data's folder cannot be listed.
std::optional<DeviceMemoryNeed> least_device_memory(const RunConfig& config,
                                                    const DevicePlaces& places);

/// A GPU as messages name it, with the memory that it has in all: what others hold of it may be
/// back by the time that the ranks start, and those look at what is free.
struct DeviceRoom {
  std::string name;
  std::size_t bytes = 0;
};

/// Throws InputError where the need exceeds the room: one line with both, and how many processes of
/// each GPU fit, the run's batch being dealt to fewer, or else about how many samples at once do.
void require_device_memory(const RunConfig& config, const DevicePlaces& places,
                           const DeviceRoom& room);

}  // namespace tandem
