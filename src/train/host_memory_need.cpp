#include "train/host_memory_need.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace tandem {
namespace {

MemoryPlaces memories(const HostPlaces& places) {
  return {
      .kind = MemoryPlaces::Kind::host, .processes = places.processes, .memories = places.hosts};
}

}  // namespace

std::optional<RunMemoryNeed> least_host_memory(const RunConfig& config, const HostPlaces& places) {
  return least_memory(config, memories(places));
}

void require_host_memory(const RunConfig& config, const HostPlaces& places, std::size_t available) {
  const std::optional<RunMemoryNeed> need = least_host_memory(config, places);
  if (!need || need->bytes() <= available) return;
  std::string text =
      need_text(config, *need, places.hosts > 1 ? "each host" : "this host", "processes");
  text += fmt::format("; of {} in all, {} are available", format_bytes(need->bytes()),
                      format_bytes(available));
  const int fits = fitting_processes(config, memories(places), available);
  if (fits > 0) {
    text +=
        fmt::format("; {} with the same train.global_batch: lower --ranks-per-gpu, or mpirun -n",
                    fits == 1 ? "one process fits" : fmt::format("{} processes fit", fits));
  } else {
    text += fitting_samples_advice(config, memories(places), *need, available);
  }
  throw InputError(text);
}

}  // namespace tandem
