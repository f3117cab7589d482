#pragma once

#include <string>

#include "train/run_memory_need.h"

namespace tandem {

/// How a run's processes lie on GPUs; the same on each.
struct DevicePlaces {
  int processes = 1;  ///< on each GPU
  int devices = 1;    ///< of all hosts
};

/// least_memory() of one GPU's; CUDA contexts come on top.
std::optional<RunMemoryNeed> least_device_memory(const RunConfig& config,
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
