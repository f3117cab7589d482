#include "train/progress_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace tandem {
namespace {

struct Texts {
  std::string epoch, percent, step, loss, top1, rate, eta;
};

double fraction_of(const ProgressState& state) {
  if (state.steps <= 0) return 0;
  return std::clamp(static_cast<double>(state.step) / static_cast<double>(state.steps), 0.0, 1.0);
}

std::string rate_text(double rate) {
  if (!std::isfinite(rate) || rate < 0) return "- img/s";
  if (rate >= 1e6) return fmt::format("{:.2f}M img/s", rate / 1e6);
  if (rate >= 1e4) return fmt::format("{:.1f}k img/s", rate / 1e3);
  return fmt::format("{:.{}f} img/s", rate, rate < 10 ? 1 : 0);
}

std::string eta_text(double seconds) {
  // Above this many seconds (three years) the figure says nothing, and it may not fit an integer.
  const bool known = std::isfinite(seconds) && seconds >= 0 && seconds < 1e8;
  return "ETA " + (known ? format_duration(seconds) : std::string("-"));
}

Texts texts_of(const ProgressState& state) {
  return {fmt::format("epoch {}/{}", state.epoch, state.epochs),
          // Rounded down: 100 % means done.
          fmt::format("{:3.0f}%", std::floor(fraction_of(state) * 100)),
          fmt::format("step {}/{}", state.step, state.steps),
          std::abs(state.loss) < 1e4 ? fmt::format("loss {:.4f}", state.loss)
                                     : fmt::format("loss {:.4g}", state.loss),
          fmt::format("top-1 {:.2f}%", state.top1 * 100), rate_text(state.images_per_second),
          eta_text(state.eta_seconds)};
}

std::string bar(double fraction, int cells) {
  const auto full = static_cast<std::size_t>(fraction * cells);
  return "[" + std::string(full, '#') + std::string(static_cast<std::size_t>(cells) - full, '-') +
         "]";
}

}  // namespace

std::string format_live_progress(const ProgressState& state, int width) {
  constexpr int min_cells = 8;
  constexpr int max_cells = 30;
  const auto limit = static_cast<std::size_t>(std::max(width, 0));
  const Texts texts = texts_of(state);

  std::size_t used = texts.epoch.size();
  const std::array<const std::string*, 6> by_importance{&texts.percent, &texts.loss, &texts.top1,
                                                        &texts.eta,     &texts.rate, &texts.step};
  std::array<bool, 6> fits{};
  for (std::size_t i = 0; i < by_importance.size(); ++i) {
    const std::size_t more = by_importance[i]->size() + (i == 0 ? 1 : 2);
    fits[i] = used + more <= limit;
    // What matters less than a text that found no place gets none either.
    if (!fits[i]) break;
    used += more;
  }

  std::string line = texts.epoch;
  const int room = static_cast<int>(limit) - static_cast<int>(used) - 3;
  if (room >= min_cells) line += " " + bar(fraction_of(state), std::min(room, max_cells));
  if (fits[0]) line += " " + texts.percent;
  // As people read: where, how good, how fast, how long.
  for (const std::size_t i : {5U, 1U, 2U, 4U, 3U}) {
    if (fits[i]) line += "  " + *by_importance[i];
  }
  line.resize(std::min(line.size(), limit));
  return line;
}

std::string format_plain_progress(const ProgressState& state) {
  const Texts texts = texts_of(state);
  return fmt::format("{}  {}  {}  {}  {}  {}", texts.epoch, texts.step, texts.loss, texts.top1,
                     texts.rate, texts.eta);
}

}  // namespace tandem
