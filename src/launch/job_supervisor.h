#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/launch_plan.h"

namespace tandem {

/// How a job that failed is to go on.
struct Continuation {
  std::vector<std::string> command;  ///< `tandem`'s arguments
  std::string text;                  ///< "from step 200 (PATH)", for the message
  bool from_checkpoint = false;      ///< else it starts anew
};

struct SupervisorOptions {
  int max_restarts = 0;
  /// What to start instead of a command that failed. Only called once a job has failed. Where it
  /// throws, as of checkpoints that are all damaged or a disk that does not answer, a warning says
  /// so, and the job, which keeps its code, is not started again. `is_restart` false: it ends in
  /// any case, and only a line is to say from where it could go on.
  std::function<Continuation(const std::vector<std::string>& command, bool is_restart)> go_on;
};

/// Starts the plan's job and, where it fails, starts it again, each time under a new name and so
/// with new MPS daemons, after a second. A job that was stopped, one that ended by the user's
/// mistake (exit code 2), and one that a signal to this process ended are not started again.
/// Returns the exit code: that of the last job, 1 where mpirun did not start a host's part,
/// 128 + the signal where a signal to this process ended a job that has no code for it, or 75 where
/// one called a restart off. Says why mpirun ended where no rank could, and from where a job that
/// failed can go on.
int supervise(LaunchPlan plan, const SupervisorOptions& options);

/// A new job's name: letters and digits that no other job of this user has.
std::string new_job_name();

}  // namespace tandem
