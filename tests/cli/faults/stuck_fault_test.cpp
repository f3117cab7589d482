#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/run_folder.h"
#include "support/process.h"

// Faults of ranks whose error is kept from main(), for ever, by what it takes down on its way.

namespace tandem::cli {
namespace {

class Stuck : public RunTest, public testing::WithParamInterface<const char*> {
 protected:
  /// Two ranks whose loaders do not end once hang() was called.
  std::unique_ptr<Program> start(std::vector<std::string> arguments) const {
    const auto more = endless({"parallel.timeout_seconds=4"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto program = std::make_unique<Program>(
        Launch{.command = on_ranks(2, arguments),
               .folder = root(),
               .environment = {{"LD_PRELOAD", TANDEM_HANGING_CALLS},
                               {"TANDEM_HANGING_CALL", "join"},
                               {"TANDEM_HANGING_FILE", path("stuck").string()}}});
    wait_until("steps are under way", 60.0,
               [&] { return processor_seconds(program->rank_process(1)) > 4.0; });
    return program;
  }
};

TEST_P(Stuck, IsToldAndEnded) {
  const std::string command = GetParam();
  std::vector<std::string> arguments{command, "run.toml"};
  if (command == "bench") arguments.insert(arguments.end(), {"--seconds", "3600"});
  const auto program = start(arguments);
  const std::vector<pid_t> processes{program->rank_process(0), program->rank_process(1)};
  write_file(path("stuck"), "");
  hold(processes[1]);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  // With its GPU, where it computes on one.
  const std::regex told("waited 4 s in .* for rank 1, which gives no sign of life \\(rank 1 on " +
                        host_name() + "(, GPU-[^,)]+)?\\); look at the hosts");
  EXPECT_TRUE(std::regex_search(line, told)) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
}

INSTANTIATE_TEST_SUITE_P(Commands, Stuck, testing::Values("train", "bench"));

}  // namespace
}  // namespace tandem::cli
