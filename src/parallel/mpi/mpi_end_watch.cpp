#include "parallel/mpi/mpi_end_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/exit_code.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/process_place.h"
#include "base/process_report.h"
#include "base/process_table.h"
#include "base/standstill.h"
#include "parallel/host_claim.h"
#include "parallel/mpi/ranks_on_host.h"

namespace tandem {
namespace {

/// By the thread of that name others see that a rank has come to its end.
constexpr const char* thread_name = "tandem-end";

/// Between ranks whose teardown takes its time, whatever short time-out is asked for.
constexpr double least_seconds = 10.0;

/// For who has told it to have the launcher end this process.
constexpr std::chrono::seconds launchers_turn(4);

/// Behind the line of any rank that hangs on its way here. Ranks come to it one after the other.
double patience(double timeout_seconds, int rank) {
  constexpr int last_turn = 1000;
  constexpr double behind = 0.3;
  constexpr double turn = 0.1;
  const double usual = longest_standstill(Standstill::Seconds(timeout_seconds)).count();
  const double heartbeat = in_turn(std::max(usual, least_seconds), last_turn);
  return heartbeat + behind + turn * std::min(rank, 3);
}

/// On a thread of its own, for who takes such lines may be gone: mpirun too.
void tell(const std::string& line) {
  constexpr std::chrono::seconds longest(1);
  std::packaged_task<void()> task([line] { log_error("{}", line); });
  const std::future<void> told = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    log_error("{}", line);  // no thread can be started
    return;
  }
  told.wait_for(longest);
}

struct Watch {
  double seconds;
  std::string job;
  std::string place;
  HostClaims* claims;
  std::shared_ptr<std::atomic<bool>> mpi_ended;

  void operator()() const {
    static_cast<void>(::pthread_setname_np(::pthread_self(), thread_name));
    constexpr std::chrono::milliseconds interval(100);
    Standstill standstill(Standstill::Clock::now());
    Standstill::Seconds stood{0.0};
    while (stood.count() < seconds) {
      std::this_thread::sleep_for(interval);
      if (*mpi_ended) return;
      stood = standstill.look(!has_stopped_ancestor(), Standstill::Clock::now());
    }
    const bool is_first = job.empty() || claims_on_host(job, "end", true);
    if (!is_first) std::this_thread::sleep_for(launchers_turn);
    const bool is_told = claims != nullptr && claims->is_claimed(HostClaim::told_error);
    if (*mpi_ended) return;
    if (!is_told) {
      const std::string whom = whom_text(ranks_on_host(job, thread_name), host_name());
      tell(
          fmt::format("the run's work is done, but waited {:g} s in MPI_Finalize for {}; look at "
                      "the hosts ({})",
                      seconds, whom.empty() ? "other ranks" : whom, place));
    }
    ::_exit(ExitCode::failure);
  }
};

}  // namespace

MpiEndWatch::MpiEndWatch(double timeout_seconds, int rank)
    : mpi_ended_(std::make_shared<std::atomic<bool>>(false)) {
  if (timeout_seconds == 0.0) return;
  // MPI_Finalize changes the environment while the thread looks.
  const Watch watch{.seconds = patience(timeout_seconds, rank),
                    .job = pmix_job(),
                    .place = process_place(),
                    .claims = host_claims(),
                    .mpi_ended = mpi_ended_};
  const BlockedSignals blocked;
  try {
    std::thread(watch).detach();
  } catch (const std::system_error& error) {
    log_debug("the run's end is not watched: {}", error.what());
  }
}

}  // namespace tandem
