#pragma once

#include <string>
#include <vector>

#include "base/subprocess.h"
#include "launch/rank_board.h"

namespace tandem {

/// Starts the program that is to be a rank, waits for its end and returns its exit code. Where a
/// signal ends it (SIGKILL, a segmentation fault) that nobody sent to this process too, an error
/// line names rank, host, device and the step that was under way, and what the host's other ranks
/// then wait in, such as a gradient bucket; the code is 128 + signal.
/// Ranks of a host that end so within a moment are named in one line, by one of their watchers, and
/// there is no other line for the job on that host.
///
/// Where signals (SIGSTOP) have stopped all ranks of this host, for longer than ranks wait for one
/// another (ProcessReport::set_timeout()) by a fifth, two seconds at least, one line says so, all
/// are killed, and the code is 1. What the rank waits for elsewhere is its own to notice. Time in
/// which this process or one above it, as the launcher, was stopped too does not count.
///
/// mpirun and srun signal a whole process group: what they send reaches the rank by itself, and
/// this process lets it pass. What comes before there is a rank is handed on to it. A signal that
/// this process was started to ignore, as by nohup, the rank ignores too. If this process is
/// killed, so is the rank.
int watch_rank(const std::vector<std::string>& command, const EnvironmentChanges& environment,
               const WatchPlace& place);

}  // namespace tandem
