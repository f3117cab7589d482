#include "train/placement_key.h"

#include <fmt/format.h>

#include "parallel/rank_devices.h"
#include "train/environment.h"

namespace tandem {

PlacementKey placement_key(const RunConfig& config, const DeviceSet& devices) {
  const TransformOptions& input = config.data.transform;
  PlacementKey key{
      {"model", config.model},
      {"input", fmt::format("{} of {}x{}x{}", name_of(config.data.kind), input.size, input.size,
                            input.channels)},
      {"batch", fmt::format("{} in {} micro-batches", config.global_batch, config.accumulate)},
      {"precision", std::string(name_of(config.precision))},
      {"device", devices.name},
      {"devices", std::to_string(devices.count)},
      {"Tandem", tandem_version()}};
  for (const DeviceFact& library : library_versions())
    key.emplace_back(library.name, library.value);
  return key;
}

}  // namespace tandem
