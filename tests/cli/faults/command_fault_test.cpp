#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
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
  /// What a rank has computed once it is in the middle of it, its start included.
  double processor_seconds = 4.0;
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
      return started && processor_seconds(rank) > work.processor_seconds;
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

  /// An evaluation for which each rank computes for six seconds, however fast the processor is.
  /// By the time that is spent in computing: seconds of a clock are longer beside other programs,
  /// which come and go.
  Work moderate_evaluation() const {
    constexpr int few = 2;
    constexpr int many = 100'000;
    trained("sized", set({"train.max_steps=1"}));
    const double start = processor_seconds_of_evaluating(few);
    const double of_each_rank = (processor_seconds_of_evaluating(many) - start) / 2.0;
    if (of_each_rank <= 0.0) throw std::runtime_error("many samples cost no more than few");
    return {"Eval", static_cast<int>(many * 6.0 / of_each_rank), start + 1.0};
  }

 private:
  /// On two ranks, with all that starts and ends them.
  double processor_seconds_of_evaluating(int samples) const {
    const double before = processor_seconds_of_children();
    const Outcome outcome =
        command({"eval", "sized", "--set", fmt::format("data.test_size={}", samples)}, 2);
    if (outcome.code != 0) throw std::runtime_error(outcome.err);
    return processor_seconds_of_children() - before;
  }
};

TEST_F(HungRankOf, BenchIsNamedAndEnded) { expect_told(benchmark, 1); }
TEST_F(HungRankOf, BenchIsNamedAndEndedWhereItIsTheFirst) { expect_told(benchmark, 0); }

// The other one has its own share to evaluate before it waits.
TEST_F(HungRankOf, EvalIsNamedAndEnded) { expect_told(moderate_evaluation(), 1, 60.0); }

}  // namespace
}  // namespace tandem::cli
