#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// How far training is, as the progress line shows it.
struct ProgressState {
  std::int64_t epoch = 0;  ///< The running epoch, counted from 1.
  std::int64_t epochs = 0;
  std::int64_t step = 0;  ///< Steps done in this epoch.
  std::int64_t steps = 0;
  double loss = 0;               ///< Of the epoch so far or the last steps, as the caller means it.
  double top1 = 0;               ///< Fraction of right answers, 0 to 1.
  double images_per_second = 0;  ///< Of all ranks together.
  double eta_seconds = 0;        ///< To the end of training; negative or not finite: unknown.
};

/// How far a pass over a data set is.
struct CountState {
  std::string_view what = "checked";  ///< was done with the images
  std::int64_t done = 0;              ///< images
  std::int64_t total = 0;
  double seconds = 0;  ///< since the pass began
};

/// Four decimals, or four digits where it is 1e4 or more: a run that diverges is no wider.
std::string loss_text(double loss);

/// The live line, at most `width` (>= 0) columns, all ASCII: "epoch 3/20 [####----]  45% …". What
/// does not fit is left out, the least important first: bar, step, img/s, ETA, top-1, loss.
std::string format_live_progress(const ProgressState& state, int width);

/// The same facts as a line of a log, without bar or limit.
std::string format_plain_progress(const ProgressState& state);

/// The same of a pass: "checked [####----]  45%  452,103/1,000,000  512 img/s  ETA 17:50"; left out
/// are bar, img/s, ETA, count.
std::string format_live_progress(const CountState& state, int width);
std::string format_plain_progress(const CountState& state);

}  // namespace tandem
