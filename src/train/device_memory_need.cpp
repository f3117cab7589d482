#include "train/device_memory_need.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace tandem {
namespace {

MemoryPlaces memories(const DevicePlaces& places) {
  return {.kind = MemoryPlaces::Kind::device,
          .processes = places.processes,
          .memories = places.devices};
}

}  // namespace

std::optional<RunMemoryNeed> least_device_memory(const RunConfig& config,
                                                 const DevicePlaces& places) {
  return least_memory(config, memories(places));
}

void require_device_memory(const RunConfig& config, const DevicePlaces& places,
                           const DeviceRoom& room) {
  const std::optional<RunMemoryNeed> need = least_device_memory(config, places);
  if (!need || need->bytes() <= room.bytes) return;
  std::string text = need_text(config, *need, room.name, "ranks");
  text += fmt::format("; {} in all, of {} that it has", format_bytes(need->bytes()),
                      format_bytes(room.bytes));
  const int fits = fitting_processes(config, memories(places), room.bytes);
  if (fits > 0) {
    text += fmt::format("; {} with the same train.global_batch: lower --ranks-per-gpu",
                        fits == 1 ? "one rank fits" : fmt::format("at most {} ranks fit", fits));
  } else {
    text += fitting_samples_advice(config, memories(places), *need, room.bytes);
  }
  throw InputError(text);
}

}  // namespace tandem
