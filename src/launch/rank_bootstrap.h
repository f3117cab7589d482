#pragma once

#include <string>
#include <vector>

#include "base/subprocess.h"
#include "launch/host_slots.h"
#include "parallel/placement/launched_job.h"

namespace tandem {

/// What every process of a launched job is told on its command line: `tandem launch-rank`.
struct RankRequest {
  SlotRequest slot;
  std::string job;                   ///< names the job's folder on each host; letters and digits
  std::vector<std::string> command;  ///< `tandem`'s arguments
};

/// `tandem launch-rank ...` that says all of it, for mpirun's command line; the program first.
std::vector<std::string> rank_command(const std::string& program, const RankRequest& request);

/// A process's place among those that a launcher started on its host.
struct LocalPlace {
  int rank = 0;
  int size = 0;  ///< 0: the launcher does not say
};
/// As mpirun and srun tell it in the environment. Throws InputError where nobody does.
LocalPlace read_local_place(const ReadEnvironment& environment);

/// The variables that tie a process to its slot: it sees the slot's GPU alone, and none where the
/// request is for none. `pipes` and `logs`: the MPS daemon's directories; empty for none, so that a
/// process on a GPU is no client of one that it would find by itself.
EnvironmentChanges slot_environment(const Slot& slot, const SlotRequest& request,
                                    const std::string& pipes, const std::string& logs);

/// What such a process does: it chooses its slot on this host, starts the host's MPS daemons (the
/// first local rank) or waits for them, binds itself to its cores, and starts the command, which
/// becomes the rank, and watches it (watch_rank()). Returns its exit code. No MPI and no CUDA call
/// is made here.
int run_rank(const RankRequest& request);

}  // namespace tandem
