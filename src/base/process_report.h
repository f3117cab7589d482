#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/host_claims.h"

namespace tandem {

/// Names, in the environment of a process that is watched, the memory that it reports in.
inline constexpr const char* process_report_variable = "TANDEM_REPORT";

/// What a process says of itself, for a parent that watches it to read, also once it is dead. Lies
/// in memory that both share; zeroed memory is a process that has said nothing. One thread writes
/// each value; any may read.
class ProcessReport {
 public:
  /// Of a training run that prepares its first step.
  static constexpr std::int64_t before_first_step = -1;

  /// The training step that is under way, with what follows it, as an evaluation or a checkpoint,
  /// counted from 1, or before_first_step; 0: there is no training run yet. A run that goes on is
  /// at the last step of the one before, once that is known, until its own first one begins.
  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const { return step_; }

  /// For how long other ranks wait for a sign of life of this process; 0: for ever.
  void set_timeout(double seconds) { timeout_seconds_ = seconds; }
  double timeout_seconds() const { return timeout_seconds_; }

  /// What this process has been waiting for other ranks in for some time, or failed in, cut to what
  /// there is room for; empty: it does not wait, or not for long.
  void set_wait(std::string_view operation);
  std::string wait() const;

 private:
  static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
                std::atomic<double>::is_always_lock_free && std::atomic<char>::is_always_lock_free);

  std::atomic<std::int64_t> step_{0};
  std::atomic<double> timeout_seconds_{0.0};
  std::atomic<std::uint32_t> wait_version_{0};  // odd while the text is written
  std::array<std::atomic<char>, 172> wait_{};
};

/// Name and value of the variable by which a child finds its report, `offset` bytes into the file
/// of this descriptor, which it must inherit. The file begins with the HostClaims of all who report
/// there. It lives as long as the parent's memory.
std::pair<std::string, std::string> report_variable(int descriptor, std::size_t offset);

/// How the name of a file begins, in its folder, in which reports may lie; others are not taken for
/// one where a process inherited the variable, but not the descriptor.
inline constexpr std::string_view report_file_start = "tandem-ranks";

/// This process's, in its parent's memory where that watches it.
ProcessReport& own_report();

/// Whether a parent reads own_report(), and so tells how a signal ends this process.
bool has_watching_parent();

/// Of this host's processes of this job, which parents watch; null where none watches this one.
HostClaims* host_claims();

}  // namespace tandem
