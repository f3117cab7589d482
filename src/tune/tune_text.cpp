#include "tune/tune_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem {
namespace {

/// "+12.3 %", "-0.4 %".
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100.0 * share); }

std::string table(const std::vector<Row>& rows) {
  std::string text = row_heading() + "\n";
  for (const Row& row : rows) text += row_text(row) + "\n";
  return text;
}

std::string choice_text(const TuneResult& result) {
  const Row& choice = result.rows.at(result.choice);
  std::string text = fmt::format("choice: {}\n", text_of(choice.candidate));
  if (!result.one_rank) return text + "one rank with the whole batch does not run here\n";
  if (!result.best_other) return text + "no other placement was measured\n";
  const Row& other = result.rows.at(*result.best_other);
  if (!result.measured_in_turns()) {
    text += "both of single runs at different moments: there was no whole round in turns\n";
  }
  if (const auto before = result.gain_before_only_round()) {
    const bool differs = result.gain() > result.spread() && !result.other_is_faster();
    text +=
        fmt::format("there was one round in turns; in the runs before it the other gains {}{}\n",
                    signed_percent(*before), differs ? ", so one rank stays" : "");
  }
  if (result.choice == *result.best_other) {
    return text + fmt::format("it gains {} over one rank with the whole batch; spread {:.1f} %\n",
                              signed_percent(result.gain()), 100.0 * result.spread());
  }
  // Others may look faster in the table, in a single run or by another number of workers.
  return text + fmt::format("the best other one {}, {}, gains {} over it; spread {:.1f} %\n",
                            other.final_runs.empty() ? "of the fastest on one batch"
                                                     : "of those measured again",
                            text_of(other.candidate), signed_percent(result.gain()),
                            100.0 * result.spread());
}

/// Of a single run, how far apart its stretches were.
std::string range_text(const Row& row) {
  if (row.counted().size() == 1) return fmt::format("within {:.1f} %", 100.0 * row.spread());
  return fmt::format("{:.1f} to {:.1f}", row.least_training(), row.most_training());
}

}  // namespace

std::string row_heading() {
  return fmt::format("{:<38} {:>12} {:>25} {:>12} {:>10} {:>5}", "placement", "images/s", "range",
                     "on one batch", "GPU memory", "runs");
}

std::string row_text(const Row& row) {
  const std::string name = text_of(row.candidate) + (row.borrowed_kernels() ? " *" : "");
  if (!row.measured()) {
    // One that took too long may have been choosing kernels all the time: no fault of its own.
    return fmt::format("{:<38} {}{}", name,
                       row.does_not_fit ? "does not fit: "
                       : row.timed_out  ? "not done in time: "
                                        : "failed: ",
                       row.problem);
  }
  const std::optional<double> bytes = row.counted().back().device_bytes;
  return fmt::format("{:<38} {:>12.1f} {:>25} {:>12.1f} {:>10} {:>5}", name, row.training(),
                     range_text(row), row.one_batch(),
                     bytes ? fmt::format("{:.2f} GiB", *bytes / (1U << 30U)) : std::string("-"),
                     row.counted().size());
}

std::string tune_text(const TuneResult& result) {
  std::string text = fmt::format("on {} x {}; images/s in training, with the loader\n",
                                 result.devices, result.device);
  text += table(result.rows);
  for (const std::string& each : result.left_out) text += "left out: " + each + "\n";
  text += choice_text(result);
  if (std::ranges::any_of(result.rows, &Row::borrowed_kernels)) {
    text +=
        "(* with the whole GPU's kernels, since none were chosen for the share, which may be "
        "faster with its own: a launch chooses and keeps them)\n";
  }
  text +=
      "(k ranks on a device train as k ranks anywhere: each normalises over its own samples, a "
      "k-th of the batch)\n";
  return text;
}

std::string why_not_kept(const TuneResult& result) {
  if (!result.best_other) {
    const bool all_ended =
        std::ranges::none_of(result.rows, [](const Row& row) { return row.timed_out; });
    return result.left_out.empty() && all_ended ? "" : "nothing stood against it";
  }
  if (!result.one_rank) return "";
  if (!result.measured_in_turns()) return "nothing was measured in turns";
  return result.is_contradicted() ? "the only round in turns contradicts the runs before it" : "";
}

std::string sweep_text(const TuneResult& result, const Sweep& sweep) {
  std::string text = "\nthe grid, with more workers as long as they help\n" + table(sweep.rows);
  text += fmt::format("best of the grid: {}\n", text_of(sweep.rows.at(sweep.best).candidate));
  if (sweep.again.size() == 1) return text + "it is the search's choice: no regret\n";
  return text + "both again, in turns\n" + table(sweep.again) +
         fmt::format(
             "regret of the search's choice, {}: {:.1f} % of the best's rate; spread {:.1f} "
             "%\n",
             text_of(result.rows.at(result.choice).candidate), 100.0 * sweep.regret,
             100.0 * sweep.spread);
}

}  // namespace tandem
