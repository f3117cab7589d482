#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "train/record/progress_format.h"
#include "train/record/terminal.h"

namespace tandem {

struct ProgressOptions {
  /// Rewrite one line in place (true), or log plain lines.
  bool live = is_live_terminal();
  /// Where the live line goes: the terminal that the log writes to.
  int descriptor = 2;
  /// Plain lines come at most this often, besides one at each epoch's end.
  double plain_interval_seconds = 10;
  /// Columns of the live line; 0 asks the terminal anew at each update, so that it may be resized.
  int width = 0;
  /// Seconds from any origin; empty: the steady clock.
  std::function<double()> clock;
};

/// Shows how training, or other long work, goes. Live: one line, rewritten at most ten times a
/// second, which steps aside for log lines; an epoch ends as a plain line in the log. Otherwise
/// plain lines through log_info. No colours. Rank 0 alone makes one, and one lives at a time in a
/// process.
class Progress {
 public:
  explicit Progress(ProgressOptions options = {});
  /// Clears the live line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After each step; cheap when nothing is due. `State`: what progress_format.h formats.
  template <typename State>
  void update(const State& state) {
    switch (due()) {
      case Due::nothing:
        return;
      case Due::plain:
        return show_plain(format_plain_progress(state));
      case Due::live:
        return show_live(format_live_progress(state, columns()));
    }
  }
  /// Logs the epoch's last state.
  void end_epoch(const ProgressState& state);
  /// Takes the live line off the terminal until the next update().
  void clear();

 private:
  enum class Due { nothing, plain, live };
  Due due();
  int columns() const;
  void show_plain(const std::string& line);
  void show_live(const std::string& line);

  /// The log's interrupt: clears whichever line is live.
  static void make_way();
  // Both with the lock of the live line held.
  void erase();
  void write(std::string_view text);

  ProgressOptions options_;
  double last_ = 0;
  bool shown_ = false;
};

}  // namespace tandem
