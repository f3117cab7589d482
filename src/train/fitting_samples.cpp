#include "train/fitting_samples.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem {

std::int64_t most_fitting_samples(std::int64_t too_many, std::int64_t step,
                                  const std::function<bool(std::int64_t)>& fits) {
  constexpr std::int64_t parts = 50;
  std::int64_t few = 0;
  std::int64_t many = (too_many + step - 1) / step;
  while (many - few > std::max<std::int64_t>(1, few / parts)) {
    const std::int64_t middle = few + (many - few) / 2;
    (fits(middle * step) ? few : many) = middle;
  }
  return few * step;
}

std::string fitting_samples_text(std::int64_t samples, std::int64_t step, bool several) {
  const char* const each = several ? " in each process" : "";
  if (samples == 0) {
    const std::string least =
        step == 1 ? "one sample fits" : fmt::format("{} samples, one a folded rank, fit", step);
    return fmt::format("; hardly {}{}: use a smaller model{}{}, or lower data.size", least, each,
                       step == 1 ? "" : ", fewer folded ranks",
                       several ? ", fewer processes with a smaller batch" : "");
  }
  return fmt::format(
      "; about {} sample{} at once fit{}{}: lower train.global_batch or data.size, or raise "
      "train.accumulate",
      samples, samples == 1 ? "" : "s", samples == 1 ? "s" : "", each);
}

std::string fitting_advice(
    const RunConfig& config, std::int64_t too_many, bool several, std::size_t room,
    const std::function<std::size_t(const RunConfig&, std::int64_t)>& bytes) {
  RunConfig accumulating = config;
  accumulating.accumulate = std::max(config.accumulate, 2);
  const std::int64_t samples = most_fitting_samples(
      too_many, config.folded_ranks,
      [&](std::int64_t some) { return bytes(accumulating, some) <= with_some_left(room); });
  return fitting_samples_text(samples, config.folded_ranks, several);
}

}  // namespace tandem
