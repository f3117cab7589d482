#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cli/run_folder.h"

// A run on two hosts, here network namespaces, with as many ranks on each. The second host sees
// another folder in the run's place, as where the hosts share no file system.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class TwoHosts : public RunTest {
 protected:
  TwoHosts() {
    fs::create_directories(path("out"));
    fs::create_directories(other_folder());
  }

  fs::path other_folder() const { return path("out.second_host"); }

  void trained_on_two(const std::vector<std::string>& more, int ranks_per_host = 1) const {
    const std::vector<std::string> mpirun_only = mpirun(1, {});
    std::vector<std::string> command{TANDEM_TWO_HOSTS_SCRIPT, mpirun_only.front(),
                                     std::to_string(ranks_per_host)};
    const std::vector<std::string> program = train_command("out", more);
    command.insert(command.end(), program.begin(), program.end());
    const Outcome outcome = run({.command = command,
                                 .folder = root(),
                                 .environment = {{"TANDEM_TWO_HOSTS_FROM", other_folder().string()},
                                                 {"TANDEM_TWO_HOSTS_OVER", path("out").string()}}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
};

// Of two ranks every sum has two terms, so one host and two give the same bits.
TEST_F(TwoHosts, TrainAndResumeAsOneHostDoes) {
  const std::vector<std::string> options = set({"parallel.check_every=4"});
  trained("whole", set({"train.max_steps=12"}, options), 2);
  trained_on_two(set({"train.max_steps=7"}, options));
  std::vector<std::string> more = set({"train.max_steps=12"}, options);
  more.emplace_back("--resume");
  trained_on_two(more);

  const std::vector<Record> starts = read_metrics(path("out"), "start");
  ASSERT_EQ(starts.size(), 2U);
  for (const Record& start : starts) {
    EXPECT_EQ(start["hosts"], 2);
    EXPECT_EQ(start["ranks"], 2);
  }
  EXPECT_EQ(train_losses(path("out")).size(), 12U);
  EXPECT_EQ(train_losses(path("out")), train_losses(path("whole")));
  expect_same_checkpoint(checkpoint(path("out"), 12), checkpoint(path("whole"), 12));
  EXPECT_TRUE(fs::is_empty(other_folder())) << "rank 1 wrote into the run's folder";
  // From a file that the first host alone has.
  std::vector<std::string> named = set({"train.max_steps=14"}, options);
  named.insert(named.end(), {"--resume", checkpoint(path("out"), 12).string()});
  trained_on_two(named);
  EXPECT_EQ(train_losses(path("out")).size(), 14U);
}

// Each host has a made-up GPU (tests/launch) and MPS daemon of its own.
TEST_F(TwoHosts, AreStartedByTheLauncher) {
  fs::create_directories(path("run"));
  fs::permissions(path("run"), fs::perms::owner_all);
  // The hosts vanish with their last command: the second one's guard needs a moment.
  const std::string until_it_is_over =
      R"sh("$@"; code=$?; for i in $(seq 600); do test -z "$(ls -A "$XDG_RUNTIME_DIR")" && break; )sh"
      "sleep 0.1; done; exit $code";
  std::vector<std::string> command{TANDEM_TWO_HOSTS_SCRIPT, "--launcher", "sh", "-c",
                                   until_it_is_over,        "sh"};
  const std::vector<std::string> launcher = tandem(
      {"launch", "--hosts", "10.213.0.1,10.213.0.2", "--gpus", "1", "--ranks-per-gpu", "2", "--"});
  command.insert(command.end(), launcher.begin(), launcher.end());
  const std::vector<std::string> training =
      train_command("out", set({"train.device=cpu", "train.max_steps=7"}));
  command.insert(command.end(), training.begin() + 1, training.end());
  const Outcome outcome =
      run({.command = command,
           .folder = root(),
           .environment = {{"TANDEM_TWO_HOSTS_FROM", other_folder().string()},
                           {"TANDEM_TWO_HOSTS_OVER", path("out").string()},
                           {"PATH", TANDEM_FAKE_MPS_FOLDER ":" + std::string(std::getenv("PATH"))},
                           {"LD_LIBRARY_PATH", TANDEM_FAKE_NVML_FOLDER},
                           {"FAKE_GPUS", "GPU-a"},
                           {"FAKE_MPS_JOURNAL", path("journal").string()},
                           {"XDG_RUNTIME_DIR", path("run").string()}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<Record> starts = read_metrics(path("out"), "start");
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0]["hosts"], 2);
  EXPECT_EQ(starts[0]["ranks"], 4);
  const std::string journal = read_file(path("journal"));
  EXPECT_EQ(occurrences(journal, "start "), 2U) << journal;
  EXPECT_EQ(occurrences(journal, "end "), 2U) << journal;
  EXPECT_TRUE(fs::is_empty(path("run")));
}

TEST_F(TwoHosts, ReduceOnTwoLevelsAsAmongAllRanksAlike) {
  constexpr double rounding = 1e-6;  // measured: the same bits
  const std::vector<std::string> options =
      set({"train.max_steps=12", "parallel.check_every=4", smooth_model()});
  trained_on_two(set({"parallel.reduction=two_level"}, options), 2);
  trained("flat", set({"parallel.reduction=flat"}, options), 4);
  const std::map<int, double> losses = train_losses(path("out"));
  const std::map<int, double> flat = train_losses(path("flat"));
  ASSERT_EQ(losses.size(), 12U);
  double furthest = 0.0;
  for (const auto& [step, loss] : losses) {
    furthest = std::max(furthest, std::abs(loss - flat.at(step)) / loss);
  }
  std::printf("losses differ by up to %.2e\n", furthest);
  EXPECT_LT(furthest, rounding);
  const Record start = read_metrics(path("out"), "start").at(0);
  EXPECT_EQ(start["hosts"], 2);
  EXPECT_EQ(start.texts.at("communicator"), "hierarchical");
  EXPECT_EQ(read_metrics(path("flat"), "start").at(0).texts.at("communicator"), "mpi");
}

}  // namespace
}  // namespace tandem::cli
