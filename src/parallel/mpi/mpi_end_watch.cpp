#include "parallel/mpi/mpi_end_watch.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/blocked_signals.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/process_place.h"
#include "base/process_report.h"
#include "base/process_table.h"
#include "base/standstill.h"

namespace tandem {
namespace {

void wait_for_end(double seconds) {
  constexpr std::chrono::milliseconds interval(100);
  Standstill standstill(Standstill::Clock::now());
  Standstill::Seconds stood{0.0};
  while (stood.count() < seconds) {
    std::this_thread::sleep_for(interval);
    stood = standstill.look(!has_stopped_ancestor(), Standstill::Clock::now());
  }
  HostClaims* const claims = host_claims();
  if (claims == nullptr || !claims->is_claimed(HostClaim::told_error)) {
    log_error(
        "waited {:g} s for the other ranks to end too (MPI_Finalize); the run's work is done; look "
        "at the hosts ({})",
        seconds, process_place());
  }
  ::_exit(ExitCode::failure);
}

}  // namespace

void watch_mpi_end(double timeout_seconds, int rank) {
  if (timeout_seconds == 0.0) return;
  const BlockedSignals blocked;
  std::thread(wait_for_end, in_turn(timeout_seconds, rank)).detach();
}

}  // namespace tandem
