#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/launched_job.h"

namespace tandem::cli {

/// A test of what a fault does to a job whose ranks, four of them, share a GPU.
class LaunchFault : public LaunchedJob {
 protected:
  /// Options of `tandem launch` for it.
  static Words shared_gpu(Words more = {});
  static std::vector<pid_t> processes_of(const Program& job, int ranks = 4);
  static pid_t mpirun_of(const Program& job);

  /// "rank 1 on HOST, UUID", as the launcher says it; of the first GPU where none is given.
  std::string place_of(int rank, const std::string& gpu) const;
  std::string place_of(int rank) const { return place_of(rank, device().gpu); }

  /// The job ended with the code, and its only line has these parts. Returns the line.
  static std::string expect_line(const Outcome& outcome, int code,
                                 const std::vector<std::string>& parts);

  /// No process, MPS daemon, folder or shared memory is left of the job, and the next one, with
  /// `options`, goes on from its newest checkpoint.
  void expect_clean_end(const std::vector<pid_t>& processes,
                        const Words& options = shared_gpu()) const;

  /// Of an endless_job() with one restart that has just failed, or is about to: it is restarted,
  /// after `code`, and goes on as a run that nobody disturbed; from an earlier checkpoint than that
  /// of step `damaged`, where there is one. `options` and `settings`: the job's, but for the
  /// restart.
  void expect_restart_with_the_same_bits(Program& job, int code, int damaged = 0,
                                         const Words& options = shared_gpu(),
                                         const Words& settings = {}) const;

  /// A command for, or under, an MPS daemon of the test's own whose pipes are in that folder.
  Launch for_daemon(const std::filesystem::path& pipes, const Words& command) const;

  /// Waits for a checkpoint behind the step.
  void expect_checkpoint_after(int step) const;
};

}  // namespace tandem::cli
