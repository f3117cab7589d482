#pragma once

namespace tandem {

/// Exit codes beside 0.
struct ExitCode {
  static constexpr int failure = 1;    ///< a bug, or a machine that failed
  static constexpr int bad_input = 2;  ///< a config, data or command line that the user mends
  static constexpr int stopped = 75;   ///< a signal stopped training; a checkpoint was written

  /// As shells tell a program that a signal ended.
  static constexpr int of_signal(int number) { return 128 + number; }
};

}  // namespace tandem
