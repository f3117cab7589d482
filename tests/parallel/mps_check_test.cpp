#include "parallel/placement/mps_check.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/subprocess.h"
#include "parallel/gather_text.h"
#include "parallel/mpi_test.h"
#include "parallel/placement/mps_control.h"
#include "support/temporary_folder.h"

// With the control program of tests/launch/fake_mps, whose clients a file lists.

namespace tandem {
namespace {

/// All ranks on one GPU, and a folder of theirs in which an MPS daemon may run.
class RanksUnderMps : public testing::Test {
 protected:
  RanksUnderMps() {
    const char* path = std::getenv("PATH");
    TANDEM_CHECK(path != nullptr, "PATH is not set");
    ::setenv("PATH", (std::string(TANDEM_FAKE_MPS_FOLDER ":") + path).c_str(), 1);
    if (world().rank() == 0) own_.emplace();
    pipes_ = all_gather_text(world(), own_ ? own_->path().string() : "").front();
  }
  ~RanksUnderMps() override {
    world().barrier();
    if (own_) std::ofstream(own_->path() / "quit") << "";
    // The daemon's own sign that it has ended, without which the folder could not be removed.
    while (own_ && std::filesystem::exists(own_->path() / "nvidia-cuda-mps-control.pid")) {
      ::usleep(1000);
    }
    ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  }

  void start_daemon() const {
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", pipes_.c_str(), 1);
    if (own_) {
      const ProgramEnd end = run_program(
          {.command = {MpsControl::program, "-d"},
           .environment = {{"CUDA_VISIBLE_DEVICES", "GPU-a"}, {"CUDA_MPS_LOG_DIRECTORY", pipes_}}});
      EXPECT_EQ(end.code, 0) << end.output;
    }
    world().barrier();
  }
  /// Rank after rank, since they write one file.
  void attach(bool mine) const {
    for (int rank = 0; rank < world().size(); ++rank) {
      if (mine && rank == world().rank()) {
        std::ofstream(pipes_ + "/clients", std::ios::app) << ::getpid() << '\n';
      }
      world().barrier();
    }
  }
  static RankTopology on(const std::vector<std::string>& gpus) {
    std::vector<RankPlace> places;
    for (const std::string& gpu : gpus) places.push_back({"here", "here", gpu});
    return {places, world().rank()};
  }
  static RankTopology together() {
    return on(std::vector<std::string>(static_cast<std::size_t>(world().size()), "GPU-a"));
  }

  std::optional<TemporaryFolder> own_;
  std::string pipes_;
};

TEST_F(RanksUnderMps, AreWhatTheirDriversSayWhereTheDaemonKnowsNoneOfThem) {
  start_daemon();
  const auto under_mps = [&](bool said) { return ranks_run_under_mps(world(), together(), said); };
  if (world().size() == 1) {
    EXPECT_FALSE(under_mps(true)) << "alone";
    return;
  }
  EXPECT_TRUE(under_mps(true));
  EXPECT_THROW(under_mps(world().rank() > 0), InputError) << "not all";
  attach(world().rank() == 0);
  EXPECT_THROW(under_mps(true), InputError) << "it knows the ranks by these numbers";
}

TEST_F(RanksUnderMps, AreWhatTheDaemonListsAsItsClients) {
  start_daemon();
  attach(true);
  EXPECT_EQ(ranks_run_under_mps(world(), together()), world().size() > 1);
}

TEST_F(RanksUnderMps, AreNotAskedForWhereEachHasAGpu) {
  std::vector<std::string> gpus;
  for (int rank = 0; rank < world().size(); ++rank) gpus.push_back("GPU-" + std::to_string(rank));
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", "/nowhere", 1);
  EXPECT_FALSE(ranks_run_under_mps(world(), on(gpus)));
}

TEST_F(RanksUnderMps, AreWarnedOfWhereTheyTakeTurns) {
  testing::internal::CaptureStderr();
  EXPECT_FALSE(ranks_run_under_mps(world(), together()));
  const std::string text = testing::internal::GetCapturedStderr();
  if (world().rank() != 0 || world().size() == 1) {
    EXPECT_EQ(text, "");
    return;
  }
  for (const char* part :
       {"they take turns on it", "over 15 times slower than one, over 25 times slower",
        "`tandem launch --ranks-per-gpu K -- train CONFIG`"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line: " << text;
}

TEST_F(RanksUnderMps, AreRefusedWhereOneIsNone) {
  if (world().size() < 2) return;
  start_daemon();
  const int outside = world().size() - 1;
  attach(world().rank() != outside);
  const std::string message =
      message_of<InputError>([&] { ranks_run_under_mps(world(), together()); });
  EXPECT_EQ(message.rfind("rank " + std::to_string(outside) +
                              " on GPU-a of host here is no client of the MPS daemon",
                          0),
            0U)
      << message;
  expect_same_everywhere(message);
}

TEST_F(RanksUnderMps, AreToldWhereTheDaemonThatIsMeantDoesNotAnswer) {
  if (world().size() < 2) return;
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", pipes_.c_str(), 1);
  const std::string message =
      message_of<SystemError>([&] { ranks_run_under_mps(world(), together()); });
  EXPECT_EQ(message.rfind("the MPS daemon of CUDA_MPS_PIPE_DIRECTORY on host here does not answer, "
                          "so that nobody knows whether ranks 0",
                          0),
            0U)
      << message;
  expect_same_everywhere(message);
}

TEST_F(RanksUnderMps, AreRefusedWhereMpsIsMeantAndNoneIsOne) {
  if (world().size() < 2) return;
  start_daemon();
  const std::string message =
      message_of<InputError>([&] { ranks_run_under_mps(world(), together()); });
  EXPECT_NE(message.find(" on GPU-a of host here are no client of the MPS daemon"),
            std::string::npos)
      << message;
  expect_same_everywhere(message);
}

}  // namespace
}  // namespace tandem
