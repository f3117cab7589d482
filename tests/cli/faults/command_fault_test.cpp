#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/run_folder.h"
#include "support/process.h"

// Faults of ranks in the commands that compute and do not train: tandem bench and tandem eval.

namespace tandem::cli {
namespace {

/// Of so many test samples; the ranks share them out.
struct Work {
  const char* name;
  int samples;  ///< 0: tandem bench
};

constexpr Work benchmark{"Bench", 0};
constexpr Work long_evaluation{"Eval", 3'000'000};  // minutes

class CommandFault : public RunTest {
 protected:
  std::unique_ptr<Program> start(const Work& work) const {
    std::vector<std::string> arguments{"bench", "run.toml", "--seconds", "3600"};
    if (work.samples > 0) {
      trained("out", set({"train.max_steps=1"}));
      arguments = {"eval", "out", "--set", fmt::format("data.test_size={}", work.samples)};
    }
    arguments.insert(arguments.end(), {"--set", "parallel.timeout_seconds=4"});
    auto program =
        std::make_unique<Program>(Launch{.command = on_ranks(2, arguments), .folder = root()});
    const pid_t rank = program->rank_process(1);
    wait_until("it computes", 60.0, [&] {
      const bool started =
          work.samples > 0 || program->err().find("measuring") != std::string::npos;
      return started && processor_seconds(rank) > 4.0;
    });
    return program;
  }

  static std::vector<pid_t> processes_of(const Program& program) {
    return {program.rank_process(0), program.rank_process(1)};
  }
};

class KilledRankOf : public CommandFault, public testing::WithParamInterface<Work> {};

TEST_P(KilledRankOf, IsNamedAndTakesTheJobAlong) {
  const auto program = start(GetParam());
  const std::vector<pid_t> processes = processes_of(*program);
  Program::signal(processes[1], SIGKILL);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  EXPECT_TRUE(
      line.starts_with(fmt::format("error: rank 1 on {} ended without a word", host_name())))
      << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
}

// They end at once, with nothing to keep.
TEST_P(KilledRankOf, IsNotNamedWhereMpirunIsToldToStop) {
  const auto program = start(GetParam());
  const std::vector<pid_t> processes = processes_of(*program);
  program->signal(SIGTERM);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
}

INSTANTIATE_TEST_SUITE_P(Each, KilledRankOf, testing::Values(benchmark, long_evaluation),
                         [](const auto& each) { return each.param.name; });

class HungRankOf : public CommandFault {
 protected:
  void expect_told(const Work& work, int rank, double limit = 30.0) const {
    const auto program = start(work);
    const std::vector<pid_t> processes = processes_of(*program);
    hold(processes[static_cast<std::size_t>(rank)]);
    const Outcome outcome = end_after_fault(*program, limit);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    const std::string line = only_error(outcome);
    for (const std::string& part :
         {std::string("error: waited 4 s in "),
          fmt::format(" for rank {0}, which gives no sign of life (rank {0} on {1}); look at the "
                      "hosts, or raise parallel.timeout_seconds",
                      rank, host_name())}) {
      EXPECT_NE(line.find(part), std::string::npos) << outcome.err << "\nwanted: " << part;
    }
    EXPECT_EQ(line.find("--resume"), std::string::npos) << "there is nothing to resume";
    for (const pid_t process : processes) expect_gone(process);
  }

  /// So many samples as take the ranks so long.
  int samples_of(double seconds) const {
    constexpr int few = 20'000;
    const std::vector<std::string> sized = set({fmt::format("data.test_size={}", few)}, {"--json"});
    trained("few", set({"train.max_steps=1"}));
    std::vector<std::string> arguments{"eval", "few"};
    arguments.insert(arguments.end(), sized.begin(), sized.end());
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {  // one may be slow beside other programs
      const Outcome outcome = command(arguments, 2);
      const std::string name = "\"seconds\":";
      const std::size_t at = outcome.out.find(name);
      if (at == std::string::npos) throw std::runtime_error(outcome.out + outcome.err);
      least = std::min(least, std::stod(outcome.out.substr(at + name.size())));
    }
    return static_cast<int>(few * seconds / least);
  }
};

TEST_F(HungRankOf, BenchIsNamedAndEnded) { expect_told(benchmark, 1); }
TEST_F(HungRankOf, BenchIsNamedAndEndedWhereItIsTheFirst) { expect_told(benchmark, 0); }

// The other one has its own share to evaluate before it waits.
TEST_F(HungRankOf, EvalIsNamedAndEnded) { expect_told({"Eval", samples_of(12.0)}, 1, 60.0); }

}  // namespace
}  // namespace tandem::cli
