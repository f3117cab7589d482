#pragma once

#include <string>
#include <vector>

#include "base/standstill.h"
#include "base/subprocess.h"
#include "launch/signal_queue.h"
#include "launch/watcher_list.h"

namespace tandem {

/// What was heard of a job's ranks on this host.
struct RankWords {
  bool heard = false;  ///< whether anything could be
  bool begun = false;  ///< a rank has begun, or what was to start it has told of an error
  bool told = false;   ///< an error was told
  /// What watches these has ended without a word, and so have they, before anything else went
  /// wrong.
  std::vector<LostWatcher> lost{};
  bool ended_from_outside = false;  ///< mpirun ended the ranks before any of them had ended
};

/// How a started job ended.
struct JobEnd {
  /// 75 where a rank of this host has stopped with that, which all do together, behind their
  /// checkpoint, whatever becomes of mpirun then. Else mpirun's exit code; 128 + signal where a
  /// signal ended it. Where mpirun was killed because it did not end the job after a failure:
  /// rank_code.
  int code = 0;
  int stop_signal = 0;  ///< the signal by which this process was asked to stop it; 0: none
  /// Of this host's ranks that failed: 2 where one ended with that, else the first one's; 0: none.
  int rank_code = 0;
  int killed_by = 0;  ///< the signal that ended mpirun, where that was not this process's; 0: none
  std::string unsaid{};  ///< a warning for which there was no room when it was due; empty: none
  RankWords words{};
};

/// Whose ranks a job has: of other hosts' nobody hears here whether they have begun.
enum class RanksOf { this_host, several_hosts };

/// Runs mpirun or srun in a session of its own, away from the terminal's signals, and waits for its
/// end. Standard output and error are this process's, the input is empty.
///
/// The stop signals to this process ask the ranks to stop: the first is handed on as SIGUSR1, to
/// mpirun or srun, which pass it to every rank, and to the ranks of this host, since some mpiruns
/// do not, again and again for up to ten seconds until one of them has begun; it lets them write
/// their checkpoint. One more, a second or later after it, ends the job
/// by SIGTERM to mpirun, unless a rank of this host has stopped, and a third by SIGKILL, to the
/// ranks of this host before mpirun. Where none of them had begun, what mpirun leaves in its
/// session is ended too. SIGUSR1 never does more than ask, as with the ranks. If this process
/// itself is killed, mpirun gets SIGTERM, which ends the ranks.
///
/// Where a rank of this host has failed (launch/end_notice.h, by the job's name) and mpirun has
/// not ended the job after `patience`, since it waits for ever for a host that is gone, a warning
/// says so, at once or, where it could not be written, as JobEnd::unsaid, and mpirun and the ranks
/// of this host are killed. Time in which this process was stopped does not count.
///
/// Where all ranks are this host's and none has begun, a starter that a stop request does not end
/// is deaf, or hangs: six seconds later it gets SIGTERM, which a warning says where one can be, and
/// three more later it is killed.
///
/// `environment`: what is set in the starter's. Call it from the thread that runs main(). Throws
/// SystemError where the command cannot be started.
JobEnd run_job(const std::vector<std::string>& command, const std::string& job,
               Standstill::Seconds patience, const SignalQueue& signals,
               RanksOf ranks = RanksOf::several_hosts, const EnvironmentChanges& environment = {});

}  // namespace tandem
