#include "launch/job_supervisor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "launch/mps_folder.h"
#include "launch/mps_guard.h"
#include "launch/rank_board.h"
#include "launch/shared_memory_folder.h"
#include "launch/supervised_job.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

/// Before a restart: other hosts clean up too, and what failed at once is not to fail a thousand
/// times a minute.
constexpr std::chrono::seconds restart_pause{1};

/// Returns once this host's MPS daemons have ended: the guard ends them, or, where it was killed
/// too, this process. A stop signal cuts it short and is returned; else 0.
int wait_for_cleanup(const std::string& job, const SignalQueue& signals) {
  const MpsFolder folder(MpsFolder::path_of(job));
  const auto begin = std::chrono::steady_clock::now();
  while (std::filesystem::exists(folder.path())) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > std::chrono::seconds(5) && folder.is_deserted()) clean_up_job(folder.path());
    if (waited > std::chrono::seconds(20)) {
      log_warning("'{}' is still in use: a process of the job, or its MPS daemon, does not end",
                  folder.path().string());
      return 0;
    }
    if (const int number = signals.take(std::chrono::milliseconds(20))) return number;
  }
  return 0;
}

/// Returns the stop signal that ended the pause; 0 where none came. Whatever came before its end
/// counts, also where this process stood still for longer.
int pause_before_restart(const SignalQueue& signals) {
  const auto end = std::chrono::steady_clock::now() + restart_pause;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const bool over = left.count() <= 0;
    if (const int number = signals.take(over ? std::chrono::milliseconds(0) : left)) return number;
    if (over) return 0;
  }
}

void require_starter(Starter starter) {
  const char* name = starter == Starter::srun ? "srun" : "mpirun";
  if (!program_on_path(name).empty()) return;
  input_error("{} is not on PATH, which starts the processes; {}", name,
              starter == Starter::srun ? "load Slurm's module"
                                       : "install Open MPI (package openmpi-bin), or load its "
                                         "module");
}

RanksOf ranks_of(const LaunchPlan& plan) {
  return plan.starter == Starter::mpirun && plan.keeps_mpirun_quiet() ? RanksOf::this_host
                                                                      : RanksOf::several_hosts;
}

/// Nothing in memory is left of the job on this host afterwards.
JobEnd run_plan(const LaunchPlan& plan, const SignalQueue& signals) {
  remove_abandoned_boards();
  const SharedMemoryFolder shared_memory_folder(plan.rank.job);
  JobEnd end = run_job(start_command(plan, plan.starter, ::geteuid() == 0), plan.rank.job,
                       ending_patience(plan), signals, ranks_of(plan), start_environment(plan));
  remove_rank_boards(plan.rank.job);
  return end;
}

/// Whether mpirun has not started a host's part.
bool did_not_start(const LaunchPlan& plan, const JobEnd& end) {
  constexpr int not_started = 255;  // a code of Open MPI's own
  return end.code == not_started && end.rank_code == 0 && plan.starter == Starter::mpirun &&
         !plan.keeps_mpirun_quiet();
}

/// Of mpirun on this host alone, whose words are kept from the terminal (-q), the MPI library's of
/// ranks among them, and whose ranks are all heard: what is known where it has ended the job and
/// nobody told of an error.
void tell_of_silent_end(const LaunchPlan& plan, const JobEnd& end) {
  const RankWords& words = end.words;
  if (ranks_of(plan) != RanksOf::this_host) return;
  if (!words.heard || words.told) return;
  if (end.stop_signal != 0 || end.killed_by != 0) return;
  const char* const how_to_see =
      plan.mpirun_speaks ? "look at what it says above"
                         : "start the same command with TANDEM_LOG=debug in the environment, and "
                           "mpirun says why";
  if (!words.lost.empty()) {
    log_error("{}", lost_text(words.lost));
  } else if (words.ended_from_outside) {
    log_error(
        "mpirun was ended from outside (code {}), and its ranks with it; where nobody did that, {}",
        end.code, how_to_see);
  } else {
    log_error("mpirun ended with code {} {}; {}", end.code,
              words.begun ? "though no rank told of an error" : "before any rank had started",
              how_to_see);
  }
}

/// From where a job that failed can go on: looked for once, where somebody asks.
class WayOn {
 public:
  WayOn(const SupervisorOptions& options, const std::vector<std::string>& command, bool is_restart)
      : options_(options), command_(command), is_restart_(is_restart) {}

  /// Null where nobody knows, which has been said then.
  const Continuation* find() {
    if (!std::exchange(looked_, true)) look();
    return found_ ? &*found_ : nullptr;
  }

 private:
  /// Nothing that it meets is what has ended the job.
  void look() {
    try {
      found_ = options_.go_on(command_, is_restart_);
    } catch (const std::exception& error) {
      log_warning("from where the run can go on is not known: {}", error.what());
    }
  }

  const SupervisorOptions& options_;
  const std::vector<std::string>& command_;
  bool is_restart_;
  std::optional<Continuation> found_;
  bool looked_ = false;
};

/// Where no rank could say it.
void tell_why(const LaunchPlan& plan, const JobEnd& end, WayOn& way_on) {
  const bool told_by_rank = end.rank_code > 0 && end.rank_code < ExitCode::of_signal(0);
  if (end.stop_signal != 0 && end.killed_by == 0 && !told_by_rank) {
    log_warning("the job was ended before its ranks had stopped by themselves");
  }
  tell_of_silent_end(plan, end);
  if (end.rank_code != 0) return;
  const char* starter = plan.starter == Starter::srun ? "srun" : "mpirun";
  if (end.killed_by != 0) {
    const Continuation* const next = way_on.find();
    log_error("{} was ended by signal {} ({}), and the ranks with it{}", starter, end.killed_by,
              strsignal(end.killed_by), next ? "; the run can go on " + next->text : "");
  }
  if (did_not_start(plan, end)) {
    log_error(
        "{} did not start the job on {}, for the reason above; every one of them must let you in "
        "without a password (ssh HOST true) and have Open MPI{}",
        starter, join(plan.hosts, ", "),
        plan.hosts.size() == 1 ? "; there is no file of that name either" : "");
  }
}

/// Whether a stop signal ended a job that no rank of this host has taken part in. Open MPI's mpirun
/// ends with 0 then, as after a job that is done, where it did not have to be killed.
bool never_began(const LaunchPlan& plan, const JobEnd& end) {
  return end.stop_signal != 0 && end.words.heard && !end.words.begun &&
         (end.code == 0 || ranks_of(plan) == RanksOf::this_host);
}

/// Of a job that has something to go on from.
void tell_way_on(WayOn& way_on) {
  const Continuation* const next = way_on.find();
  if (next == nullptr || !next->from_checkpoint) return;
  log_warning("the run can go on {}: start it again with --resume", next->text);
}

/// How a job that has failed goes on, which a line says; null where it ends with its code.
const Continuation* next_start(const SupervisorOptions& options, const LaunchPlan& plan,
                               int restarts, int code, const JobEnd& end, WayOn& way_on) {
  if (restarts >= options.max_restarts) {
    if (options.max_restarts > 0) {
      log_warning("the job ended with code {}, and all {} restarts are used up", code,
                  options.max_restarts);
    }
    // Where no rank has started, what lies in the folder is of an earlier run, perhaps another one.
    const bool ran = restarts > 0 || end.words.begun || !did_not_start(plan, end);
    if (end.killed_by == 0 && ran) tell_way_on(way_on);
    return nullptr;
  }
  const Continuation* const next = way_on.find();
  if (next == nullptr) {
    log_warning("the job ended with code {}, and is not started again", code);
  } else {
    log_warning("the job ended with code {}; restart {} of {}, {}", code, restarts + 1,
                options.max_restarts, next->text);
  }
  return next;
}

}  // namespace

int supervise(LaunchPlan plan, const SupervisorOptions& options) {
  require_starter(plan.starter);
  const SignalQueue signals;
  for (int restarts = 0;; ++restarts) {
    plan.rank.job = new_job_name();
    const JobEnd end = run_plan(plan, signals);
    int stop = wait_for_cleanup(plan.rank.job, signals);
    if (!end.unsaid.empty()) log_warning("{}", end.unsaid);  // it may wait: nothing is left to end
    if (never_began(plan, end)) {
      log_warning("the job was ended before any of its ranks had begun");
      return ExitCode::of_signal(end.stop_signal);
    }
    if (end.code == 0 || end.code == ExitCode::stopped || end.code == ExitCode::bad_input) {
      return end.code;
    }
    WayOn way_on(options, plan.rank.command, restarts < options.max_restarts);
    tell_why(plan, end, way_on);
    const int code = did_not_start(plan, end) ? ExitCode::failure : end.code;
    if (end.stop_signal != 0) return 128 + end.stop_signal;
    const Continuation* const next = next_start(options, plan, restarts, code, end, way_on);
    if (next == nullptr) return code;
    if (stop == 0) stop = pause_before_restart(signals);
    if (stop != 0) {
      log_warning("stopped by signal {} ({}), the restart is called off; the run can go on {}",
                  stop, strsignal(stop), next->text);
      return ExitCode::stopped;
    }
    plan.rank.command = next->command;
  }
}

std::string new_job_name() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

}  // namespace tandem
