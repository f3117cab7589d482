#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// A process that watches a rank (launch/rank_watch.h) and has ended without a word, as by SIGKILL:
/// its rank has ended with it, and nobody else tells of that.
struct LostWatcher {
  int rank = -1;  ///< -1: unknown
  pid_t process = 0;
  std::string device{};   ///< the rank's GPU; empty: none, or unknown
  std::int64_t step = 0;  ///< at which it was; 0: unknown
};

/// One sentence of them all (at least one), by GPU, with what they may have died of.
std::string lost_text(std::vector<LostWatcher> lost);

/// The processes of this host that watch a job's ranks, as their launcher sees them.
class WatcherList {
 public:
  WatcherList() = default;
  ~WatcherList();
  WatcherList(const WatcherList&) = delete;
  WatcherList& operator=(const WatcherList&) = delete;

  /// One has begun. Of more than 256 nobody asks how they end.
  void add(pid_t process, int rank);
  /// It has told its launcher of its end.
  void let_go(pid_t process);
  /// Those that have ended so far and were not let go: a word of theirs has come by now, or never
  /// will where no later one is taken.
  std::vector<pid_t> ended() const;
  /// Those of `ended` that have not been let go since.
  std::vector<LostWatcher> lost(const std::vector<pid_t>& ended) const;
  /// Whether none has ever begun.
  bool empty() const { return begun_ == 0; }
  /// How many have begun so far, those of which nobody asks among them.
  std::size_t begun() const { return begun_; }

 private:
  struct Watcher {
    LostWatcher facts;
    int descriptor;  // readable from its end on; -1: it had ended before
  };

  std::vector<Watcher> watchers_;
  std::size_t begun_ = 0;
};

}  // namespace tandem
