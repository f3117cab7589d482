#include "train/record/progress_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/text.h"

namespace tandem {
namespace {

struct Texts {
  std::string epoch, step, loss, top1, rate, eta;
};

double fraction(std::int64_t done, std::int64_t total) {
  if (total <= 0) return 0;
  return std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
}

/// Rounded down: 100 % means done.
std::string percent_text(double fraction) {
  return fmt::format("{:3.0f}%", std::floor(fraction * 100));
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
          fmt::format("step {}/{}", state.step, state.steps),
          "loss " + loss_text(state.loss),
          fmt::format("top-1 {:.2f}%", state.top1 * 100),
          rate_text(state.images_per_second),
          eta_text(state.eta_seconds)};
}

std::string bar(double fraction, int cells) {
  const auto full = static_cast<std::size_t>(fraction * cells);
  return "[" + std::string(full, '#') + std::string(static_cast<std::size_t>(cells) - full, '-') +
         "]";
}

/// What a live line says behind its head, bar and percentage.
struct Part {
  std::string text;
  int importance;  ///< the least is left out first
};

/// `parts` in the order in which they are read.
std::string live_line(const std::string& head, double fraction, const std::vector<Part>& parts,
                      int width) {
  constexpr int min_cells = 8;
  constexpr int max_cells = 30;
  const auto limit = static_cast<std::size_t>(std::max(width, 0));
  std::string line = head;
  const std::string percent = " " + percent_text(fraction);
  std::size_t used = head.size() + percent.size();
  if (used > limit) {
    line.resize(std::min(line.size(), limit));
    return line;
  }
  std::vector<Part> by_importance = parts;
  std::ranges::sort(by_importance, std::ranges::greater(), &Part::importance);
  int least = std::numeric_limits<int>::max();
  // What matters less than a text that found no place gets none either.
  for (const Part& part : by_importance) {
    if (used + part.text.size() + 2 > limit) break;
    used += part.text.size() + 2;
    least = part.importance;
  }
  const int room = static_cast<int>(limit) - static_cast<int>(used) - 3;
  if (room >= min_cells) line += " " + bar(fraction, std::min(room, max_cells));
  line += percent;
  for (const Part& part : parts) {
    if (part.importance >= least) line += "  " + part.text;
  }
  return line;
}

double images_per_second(const CountState& state) {
  return static_cast<double>(state.done) / state.seconds;
}

double eta_seconds(const CountState& state) {
  return static_cast<double>(state.total - state.done) / images_per_second(state);
}

}  // namespace

std::string loss_text(double loss) {
  if (std::isnan(loss)) return "nan";  // whatever its sign
  return std::abs(loss) < 1e4 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4g}", loss);
}

std::string format_live_progress(const ProgressState& state, int width) {
  const Texts texts = texts_of(state);
  // As people read: where, how good, how fast, how long.
  return live_line(
      texts.epoch, fraction(state.step, state.steps),
      {{texts.step, 0}, {texts.loss, 4}, {texts.top1, 3}, {texts.rate, 1}, {texts.eta, 2}}, width);
}

std::string format_plain_progress(const ProgressState& state) {
  const Texts texts = texts_of(state);
  return fmt::format("{}  {}  {}  {}  {}  {}", texts.epoch, texts.step, texts.loss, texts.top1,
                     texts.rate, texts.eta);
}

std::string format_live_progress(const CountState& state, int width) {
  return live_line(std::string(state.what), fraction(state.done, state.total),
                   {{fmt::format("{}/{}", format_count(state.done), format_count(state.total)), 2},
                    {rate_text(images_per_second(state)), 0},
                    {eta_text(eta_seconds(state)), 1}},
                   width);
}

std::string format_plain_progress(const CountState& state) {
  return fmt::format("{} of {} images {}, {}  {}  {}", format_count(state.done),
                     format_count(state.total), state.what,
                     fmt::format("{:.0f}%", std::floor(100 * fraction(state.done, state.total))),
                     rate_text(images_per_second(state)), eta_text(eta_seconds(state)));
}

}  // namespace tandem
