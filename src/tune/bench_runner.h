#pragma once

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tune/candidate.h"

namespace tandem {

/// The user stopped the tuner.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("stopped") {}
};

/// What all runs of a tuner have in common.
struct BenchCall {
  std::string program;  ///< tandem's path
  std::string config;
  std::vector<std::string> overrides{};  ///< "KEY=VALUE"
  std::string gpus{};                    ///< as `tandem launch` takes it; empty: all
  double seconds = 1.0;                  ///< of `tandem bench`
};

/// `tandem launch ... -- bench CONFIG ... --json FILE` of a candidate.
std::vector<std::string> bench_command(const BenchCall& call, const Candidate& candidate,
                                       const std::filesystem::path& json);

/// What `tandem bench` wrote. Throws InputError where it is something else.
Measurement read_measurement(const std::string& json);

/// Of what a failed run printed the line that says why, and whether it speaks of memory.
Measurement read_failure(std::string_view printed);

/// Measures candidates by running them just as a user would: each is one `tandem launch` of
/// `tandem bench`, a process of its own.
class BenchRunner {
 public:
  /// `folder` for the runs' files; `stop`: whether the user wants to stop.
  BenchRunner(BenchCall call, std::filesystem::path folder, std::function<bool()> stop);

  /// A run that fails or takes longer than `seconds` is a Measurement with a problem. `borrow`:
  /// processes with a share of the multiprocessors take the whole GPU's kernels where theirs are
  /// not chosen yet, which would take two or three times as long as the rest of a run; unless the
  /// environment's TANDEM_TUNE says something else. Throws Interrupted once `stop` says so.
  Measurement measure(const Candidate& candidate, bool borrow, double seconds) const;

 private:
  BenchCall call_;
  std::filesystem::path folder_;
  std::function<bool()> stop_;
};

}  // namespace tandem
