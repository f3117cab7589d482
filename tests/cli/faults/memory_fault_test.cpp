#include <fmt/format.h>

#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/run_folder.h"

// Ranks that get no more memory at the same moment, in the middle of a run.

namespace tandem::cli {
namespace {

struct Ranks {
  const char* name;
  std::string words;    ///< as the library takes them
  std::string pattern;  ///< of one of them
  std::vector<std::string> settings{};
};

class RanksWithoutMemory : public RunTest, public testing::WithParamInterface<Ranks> {
 protected:
  /// Three ranks, with their first checkpoint there. Each epoch asks for memory on all of them: for
  /// the order of its samples.
  std::unique_ptr<Program> start() const {
    auto program = std::make_unique<Program>(
        Launch{.command = train_command("out", settings(), 3),
               .folder = root(),
               .environment = {{"LD_PRELOAD", TANDEM_WITHOUT_MEMORY},
                               {"TANDEM_WITHOUT_MEMORY", GetParam().words},
                               {"TANDEM_WITHOUT_MEMORY_FILE", path("full").string()}}});
    wait_until("the first checkpoint is there", 40.0,
               [&] { return !program->running() || !checkpoint_steps(path("out")).empty(); });
    return program;
  }

  static std::vector<std::string> settings() {
    return set(GetParam().settings, endless({"train.global_batch=30", "train.eval_every=1",
                                             "checkpoint.every_steps=20", "data.train_size=600"}));
  }
};

TEST_P(RanksWithoutMemory, EndTheJobWithOneLineThatNamesOne) {
  const auto program = start();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < 3; ++rank) processes.push_back(program->rank_process(rank));
  write_file(path("full"), "");
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  // With its GPU, where it computes on one.
  const std::regex told(
      "^error: out of memory in the middle of the run; look what else takes it, and go on with "
      "--resume; the last checkpoint is out/checkpoints/step-[0-9]+\\.safetensors \\(rank " +
      GetParam().pattern + " on " + host_name() + "(, GPU-[^,)]+)?, step [0-9]+\\)$");
  EXPECT_TRUE(std::regex_search(line, told)) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_FALSE(steps.empty());
  std::vector<std::string> more =
      set({fmt::format("train.max_steps={}", steps.back() + 3)}, settings());
  more.emplace_back("--resume");
  trained("out", more, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Some, RanksWithoutMemory,
    testing::Values(Ranks{"TheFirstTwo", "0 1", "[01]"}, Ranks{"TwoOthers", "1 2", "[12]"},
                    // Each of them gives the other less time to speak.
                    Ranks{
                        "TwoOthersOfShortPatience", "1 2", "[12]", {"parallel.timeout_seconds=8"}},
                    Ranks{"All", "0 1 2", "[012]"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tandem::cli
