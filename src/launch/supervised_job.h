#pragma once

#include <string>
#include <vector>

#include "launch/signal_queue.h"

namespace tandem {

/// How a started job ended.
struct JobEnd {
  int code = 0;         ///< mpirun's exit code; 128 + signal where a signal ended it
  int stop_signal = 0;  ///< the signal by which this process was asked to stop it; 0: none
};

/// Runs mpirun or srun in a session of its own, away from the terminal's signals, and waits for its
/// end. Standard output and error are this process's, the input is empty.
///
/// The stop signals to this process ask the ranks to stop: the first is handed on as SIGUSR1, to
/// mpirun or srun, which pass it to every rank, and to the ranks of this host, since some mpiruns
/// do not; it lets them write their checkpoint. One more, a second or later after it, ends the job
/// by SIGTERM to mpirun, and a third by SIGKILL, to the ranks of this host before mpirun. SIGUSR1
/// never does more than ask, as with the ranks. If this process itself is killed, mpirun gets
/// SIGTERM, which ends the ranks.
///
/// Call it from the thread that runs main(). Throws SystemError where the command cannot be
/// started.
JobEnd run_job(const std::vector<std::string>& command, const SignalQueue& signals);

}  // namespace tandem
