#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tandem {

/// What one process of a host does, or has met, for all of a job.
enum class HostClaim : std::size_t {
  error,        ///< tells an error, of those that tell theirs in turn
  last_words,   ///< speaks last words (base/last_words.h)
  killed_rank,  ///< a signal has ended a rank, and its watcher tells of it
  told_error,   ///< a line of an error has been written, by whichever process
  ends_job      ///< a rank tells of the error with which it ends the job
};

/// Which of them are taken, in memory that the parents which watch a host's ranks share with them:
/// it is the job's alone, and so is gone with it, but not with the process that has claimed.
/// Zeroed memory: none.
class HostClaims {
 public:
  /// Whether it was nobody's.
  bool claim(HostClaim what) { return taken_[static_cast<std::size_t>(what)].exchange(1) == 0; }
  bool is_claimed(HostClaim what) const { return taken_[static_cast<std::size_t>(what)] != 0; }

 private:
  static_assert(std::atomic<std::int32_t>::is_always_lock_free);

  std::array<std::atomic<std::int32_t>, 5> taken_{};
};

}  // namespace tandem
