#include "train/step/too_large_step.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tandem {

std::string too_large_step_text(const TooLargeStep& step, std::string_view fewer) {
  const DeviceMemory& memory = step.memory;
  std::string text =
      fmt::format("{} of {} samples at once does not fit the memory of {}: it needs at least ",
                  step.what, step.batch, memory.device);
  if (step.activations > 0)
    text += fmt::format("{} of activations", format_bytes(step.activations));
  if (step.activations > 0 && step.state > 0) text += " and ";
  if (step.state > 0) {
    text +=
        fmt::format("{} of parameters, gradients and optimizer state", format_bytes(step.state));
  }
  text += fmt::format(", but of {} there are {} free", format_bytes(memory.total),
                      format_bytes(memory.free));
  if (step.ranks > 1) text += fmt::format(" for each of the {} ranks that share it", step.ranks);
  // The driver and the libraries take some of it in any case, and from an evaluation its own run.
  const std::size_t part = memory.total / static_cast<std::size_t>(step.ranks);
  const bool shared = step.state > 0 && memory.free < with_some_left(part);
  if (shared && step.state + step.activations <= part) {
    text += " (nvidia-smi shows who has the rest)";
  }
  const std::size_t room = with_some_left(memory.free);
  const std::int64_t fits = fitting_part(step.batch, step.folded_ranks, step.activations,
                                         room > step.state ? room - step.state : 0);
  return text + fitting_samples_text(fits, step.folded_ranks, step.ranks > 1, fewer);
}

}  // namespace tandem
