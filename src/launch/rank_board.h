#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host_claims.h"
#include "base/process_report.h"

namespace tandem {

/// What became of a rank, as the process that watches it sees it.
enum class RankState : std::int32_t {
  unknown,  ///< its watcher has not come yet
  runs,
  stopped,  ///< by a signal, as SIGSTOP; it may go on
  killed,   ///< a signal ended it, and not the end of the job
  ended     ///< in any other way
};

/// A rank that a signal stopped or ended.
struct SignalledRank {
  int rank = -1;       ///< -1: unknown
  std::string device;  ///< empty: none
  std::int64_t step = 0;
  int signal = 0;
};

/// "ranks 1 and 2 on node-a, GPU-8f3c..., steps 7 to 8", of those of one GPU.
std::string ranks_place(const std::vector<SignalledRank>& group);

/// "rank 1 on node-a, GPU-8f3c..., step 7 was ended by signal 9 (Killed)", of several: those of one
/// GPU and one signal together, with "; " between such groups. `what` is the participle.
std::string signalled_text(const std::vector<SignalledRank>& ranks, const std::string& what);

/// A rank that goes on, and waits for others in something.
struct WaitingRank {
  int rank = -1;  ///< -1: unknown
  std::string operation;
};

/// ", while ranks 0 and 2 waited in all_reduce of gradient bucket 1 of 3 (1,234 elements)": what
/// the first of them waits in, and all that wait in the same; nothing where none waits.
std::string waiting_text(const std::vector<WaitingRank>& ranks);

/// Where a rank is in a job.
struct RankPlaceOnBoard {
  std::string device;  ///< UUID of its GPU; empty: none
  std::int64_t step = 0;
};

/// One watcher's place on its host in a job.
struct WatchPlace {
  std::string job;     ///< its name; letters and digits
  int local_rank = 0;  ///< among the host's processes of the job
  int local_size = 1;
  std::string device{};  ///< UUID of its GPU; empty: none
  int others = 0;        ///< the job's processes on other hosts
};

/// Shared memory by which the processes that watch the ranks of one host know of each other's, so
/// that one of them speaks for all. The ranks themselves report there how far they are. Its name is
/// gone once all have it, so that nothing is left of it however they end. Where /dev/shm has no
/// room each watcher knows, and speaks, of its own rank.
class RankBoard {
 public:
  /// `rank`: this watcher's, -1 where it is unknown. Throws SystemError where there is no memory.
  RankBoard(const WatchPlace& place, int rank);
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  RankBoard& operator=(const RankBoard&) = delete;

  /// The variable by which this watcher's rank, a child process, finds its report.
  std::pair<std::string, std::string> report_variable() const;
  /// That report.
  ProcessReport& report();
  /// Of this host's ranks and their watchers, in this job alone.
  HostClaims& claims();
  /// A file that begins with them, of no lock that matters; -1: none.
  int claims_descriptor() const { return childs_descriptor_; }

  /// The process that is this watcher's rank.
  void set_process(pid_t process);
  /// What became of this watcher's rank. `signal`: by which it was stopped or killed.
  void set(RankState state, int signal = 0);

  /// Whether a rank of this host is in that state.
  bool any(RankState state) const;

  /// The ranks of this host that run and have been waiting for some time; none that has ended, of
  /// which its watcher may be about to say so.
  std::vector<WaitingRank> waiting() const;

  /// Calls `say` with the ranks in that state, unless anything has been said: then, and where
  /// another watcher is about to, it returns once that is done. Whoever speaks waits before, as
  /// `wait` does, so that it can tell of those too that are in that state by then.
  void say_once(RankState state, const std::function<void()>& wait,
                const std::function<void(const std::vector<SignalledRank>&)>& say);

  /// Where a rank is, as the file of its board says, whatever has become of the board's processes.
  /// Nothing where the file is no board, or has no such rank. `descriptor`: a claims_descriptor(),
  /// or a copy of one.
  static std::optional<RankPlaceOnBoard> place_in_file(int descriptor, int rank);

 private:
  struct Entry;
  struct Memory;

  std::size_t bytes() const;
  Entry& entry(std::size_t place) const;
  std::vector<SignalledRank> ranks_in(RankState state) const;

  std::string name_;
  std::size_t place_;
  std::size_t count_;
  int descriptor_ = -1;
  int childs_descriptor_ = -1;  // of the same file, opened anew: a child keeps no lock
  void* memory_ = nullptr;
};

/// Removes what watchers of the job left on this host that were killed before all had come.
void remove_rank_boards(const std::string& job);

/// Removes what those left of this user's jobs whose launcher was killed too: that nobody holds,
/// for a minute at least.
void remove_abandoned_boards();

}  // namespace tandem
