#include <fmt/format.h>

#include <string>

#include "cli/fault_check.h"
#include "cli/launch_fault.h"

// Ranks that stand still before MPI has started, which waits for all of them: over made-up GPUs
// (test_cli_start_faults) and over a real one (test_cli_launch_faults_gpu).

namespace tandem::cli {
namespace {

class StoppedStart : public LaunchFault {
 protected:
  /// How a job of four ranks ends of which those listed are stopped.
  Outcome outcome_of(const std::string& ranks) const {
    Launch job = launch(shared_gpu(), endless_job());
    job = with(job, "LD_PRELOAD", TANDEM_STOPPED_START_LIBRARY);
    job = with(job, "TANDEM_STOPPED_START", ranks);
    Program program(with(job, "TANDEM_START_SECONDS", "5"));
    Outcome outcome = end_after_fault(program);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    expect_nothing_left();
    return outcome;
  }
};

TEST_F(StoppedStart, OfSomeRanksIsToldByOneThatWaitsForThem) {
  const Outcome outcome = outcome_of("0 2");
  const std::string expected = fmt::format(
      "waited 5 s in MPI_Init for ranks 0 and 2 on {}, which are stopped; look at the hosts",
      host_name());
  EXPECT_NE(only_error(outcome).find(expected), std::string::npos) << outcome.err;
}

TEST_F(StoppedStart, OfAllRanksIsToldByTheProcessesThatWatchThem) {
  const Outcome outcome = outcome_of("0 1 2 3");
  const std::string expected = fmt::format(
      "error: ranks 0, 1, 2 and 3 on {}, {} were stopped by signal 19", host_name(), device().gpu);
  EXPECT_TRUE(only_error(outcome).starts_with(expected)) << outcome.err;
}

}  // namespace
}  // namespace tandem::cli
