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

std::int64_t fitting_part(std::int64_t too_many, std::int64_t step, std::size_t bytes,
                          std::size_t room) {
  if (bytes == 0) return 0;
  const double samples =
      static_cast<double>(too_many) * static_cast<double>(room) / static_cast<double>(bytes);
  // They do not fit, however little is missing.
  return std::min(static_cast<std::int64_t>(samples), too_many - 1) / step * step;
}

std::string fitting_samples_text(std::int64_t samples, std::int64_t step, bool several,
                                 std::string_view fewer) {
  const char* const each = several ? " in each process" : "";
  if (samples == 0) {
    const std::string least =
        step == 1 ? "one sample fits" : fmt::format("{} samples, one a folded rank, fit", step);
    return fmt::format("; hardly {}{}: use a smaller model{}{}, or lower data.size", least, each,
                       step == 1 ? "" : ", fewer folded ranks",
                       several ? ", fewer processes with a smaller batch" : "");
  }
  return fmt::format("; about {} sample{} at once fit{}{}: {}", samples, samples == 1 ? "" : "s",
                     samples == 1 ? "s" : "", each, fewer);
}

}  // namespace tandem
