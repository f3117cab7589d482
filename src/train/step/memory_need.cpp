#include "train/step/memory_need.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tandem {

std::int64_t fitting_batch(const MemoryNeed& need) {
  const double room = 0.9 * static_cast<double>(need.memory.free) - static_cast<double>(need.state);
  if (room <= 0.0 || need.activations == 0) return 0;
  const double samples =
      static_cast<double>(need.batch) * room / static_cast<double>(need.activations);
  // It does not fit, however little is missing.
  return std::min(static_cast<std::int64_t>(samples), need.batch - 1);
}

std::string out_of_memory_text(const MemoryNeed& need, std::string_view advice) {
  const DeviceMemory& memory = need.memory;
  std::string text =
      fmt::format("{} of {} samples at once does not fit the memory of {}: it needs at least ",
                  need.what, need.batch, memory.device);
  if (need.activations > 0)
    text += fmt::format("{} of activations", format_bytes(need.activations));
  if (need.activations > 0 && need.state > 0) text += " and ";
  if (need.state > 0) {
    text +=
        fmt::format("{} of parameters, gradients and optimizer state", format_bytes(need.state));
  }
  text += fmt::format(", but of {} there are {} free", format_bytes(memory.total),
                      format_bytes(memory.free));
  if (need.ranks > 1) text += fmt::format(" for each of the {} ranks that share it", need.ranks);
  // The driver and the libraries take some of it in any case, and from an evaluation its own run.
  const std::size_t part = memory.total / static_cast<std::size_t>(need.ranks);
  const bool shared = need.state > 0 && memory.free < part / 10 * 9;
  if (shared && need.state + need.activations <= part) {
    text += " (nvidia-smi shows who has the rest)";
  }
  const std::int64_t fits = fitting_batch(need);
  if (fits == 0) return text + "; use a smaller model or smaller images";
  return text + fmt::format("; about {} samples fit: {}", fits, advice);
}

}  // namespace tandem
