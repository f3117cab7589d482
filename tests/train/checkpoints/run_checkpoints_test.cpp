#include "train/checkpoints/run_checkpoints.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/temporary_name.h"
#include "parallel/self_communicator.h"
#include "support/message.h"
#include "train/checkpoints/checkpoint_watch.h"
#include "train/scratch.h"
#include "train/trained.h"

// Checkpoints that are written while training goes on.

namespace tandem {
namespace {

class RunCheckpointsTest : public ScratchTest {
 protected:
  RunCheckpointsTest() { store_.create_folder(); }

  void begin(std::int64_t step, bool best = false) {
    TrainingPosition reached = trained_position;
    reached.step = step;
    checkpoints_.begin(trained_.replica, reached, best);
  }
  void wait() {
    checkpoints_.wait({}, [] {});
  }

  /// Has the disk keep the checkpoint of `step` until answer().
  void keep_silent(std::int64_t step) {
    silent_ = temporary_name(store_.path_for_step(step));
    ASSERT_EQ(::mkfifo(silent_.c_str(), 0600), 0);
  }
  /// Takes what is written, which then cannot be made durable.
  void answer() const {
    const int file = ::open(silent_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    std::array<char, 65536> bytes{};
    while (::read(file, bytes.data(), bytes.size()) > 0) continue;
    ::close(file);
  }

  /// Looks, as training does in each step, until that throws.
  template <typename Exception>
  std::string told(const FilePatience& patience) {
    return message_of<Exception>([&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (std::chrono::steady_clock::now() < end) {
        checkpoints_.look(patience);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
  }

  RunConfig config_ = [] {
    RunConfig config = small_run();
    config.checkpoint_keep = 2;
    return config;
  }();
  CheckpointStore store_{path("run") / "checkpoints"};
  Trained trained_{11};
  RunCheckpoints checkpoints_{{.folder = path("run"), .resume = false, .resume_from = {}}, config_};
  std::string silent_;
};

TEST_F(RunCheckpointsTest, AreWrittenOneAfterTheOther) {
  wait();  // for nothing
  for (const std::int64_t step : {1, 2, 3}) {
    begin(step, step == 2);
    wait();
    EXPECT_EQ(store_.newest()->step, step);
  }
  EXPECT_EQ(store_.list().size(), 2U);
  EXPECT_EQ(store_.best_step(), 2);
}

// By a run that goes back behind it, and by one that goes on from behind it after all.
TEST_F(RunCheckpointsTest, TheBestIsThatOfTheStepsThatTheRunGoesOnFrom) {
  for (const std::int64_t step : {10, 20}) {
    begin(step, true);
    wait();
  }
  const auto opens = [&](const std::filesystem::path& from, TrainingPosition& position) {
    RunCheckpoints resumed({.folder = path("run"), .resume = true, .resume_from = from}, config_);
    resumed.start(trained_.replica, trained_position);
    return resumed.open(position);
  };
  TrainingPosition position = trained_position;
  position.step = position.best_step = 10;
  EXPECT_TRUE(opens(store_.path_for_step(10), position));
  EXPECT_EQ(store_.best_step(), 10);
  position.step = position.best_step = 20;
  EXPECT_FALSE(opens(store_.path_for_step(20).string() + ".superseded", position));
  EXPECT_EQ(store_.best_step(), 20);
  EXPECT_EQ(store_.newest()->step, 20);
  EXPECT_EQ(position.best_step, 20);
  // Of which nothing is left.
  position.best_step = 15;
  EXPECT_FALSE(opens(store_.path_for_step(20), position));
  EXPECT_EQ(position.best_step, 0);
  EXPECT_EQ(position.best_top1, -1.0);
}

// Which is no mistake in what the run was started with.
TEST_F(RunCheckpointsTest, AFolderThatIsGoneIsTold) {
  std::filesystem::remove_all(path("run"));
  begin(7);
  EXPECT_EQ(
      message_of<SystemError>([&] { wait(); }),
      "the run's folder '" + store_.folder().string() + "' is gone, which a run needs to its end");
}

TEST_F(RunCheckpointsTest, OfARunThatEndsByAnErrorIsFinished) {
  {
    RunCheckpoints ended({.folder = path("run"), .resume = false, .resume_from = {}}, config_);
    ended.begin(trained_.replica, trained_position, false);
  }
  ASSERT_TRUE(store_.newest());
  EXPECT_EQ(store_.newest()->step, trained_position.step);
}

// The run ended by something else.
TEST_F(RunCheckpointsTest, AFailureThatNobodyAskedForIsLogged) {
  open_log_file(path("train.log"));
  keep_silent(7);
  {
    RunCheckpoints ended({.folder = path("run"), .resume = false, .resume_from = {}}, config_);
    ended.begin(trained_.replica, trained_position, false);
    answer();
  }
  close_log_file();
  EXPECT_NE(get(path("train.log")).find("cannot sync '" + store_.path_for_step(7).string()),
            std::string::npos);
}

TEST_F(RunCheckpointsTest, MessagesDoNotWaitForADiskThatDoesNotAnswer) {
  keep_silent(7);
  begin(7);
  EXPECT_EQ(checkpoints_.way_on(),
            "go on with --resume, or start again where there is no checkpoint yet");
  answer();
}

TEST_F(RunCheckpointsTest, TrainingGoesOnMeanwhile) {
  keep_silent(7);
  begin(7);
  for (int step = 0; step < 10; ++step) checkpoints_.look({});
  EXPECT_TRUE(store_.list().empty());
  answer();
  EXPECT_EQ(message_of<SystemError>([this] { wait(); }),
            "cannot sync '" + store_.path_for_step(7).string() + "': Invalid argument");
  begin(8);  // which has another name
  wait();
  EXPECT_EQ(store_.newest()->step, 8);
}

TEST_F(RunCheckpointsTest, AFailureIsToldInTheNextStep) {
  keep_silent(7);
  begin(7);
  answer();
  EXPECT_EQ(told<SystemError>({}),
            "cannot sync '" + store_.path_for_step(7).string() + "': Invalid argument");
  checkpoints_.look({});  // once
}

// Whose own failure is logged, not told in its place.
TEST_F(RunCheckpointsTest, AnErrorWaitsForTheOneThatIsBeingWritten) {
  SelfCommunicator self;
  CheckpointWatch watch(checkpoints_, self, [] { return FilePatience{}; });
  open_log_file(path("train.log"));
  keep_silent(7);
  begin(7);
  std::thread disk([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    answer();
  });
  watch.finish_before_error();
  disk.join();
  close_log_file();
  EXPECT_NE(get(path("train.log")).find("': Invalid argument; mend that and start again"),
            std::string::npos)
      << get(path("train.log"));
}

TEST_F(RunCheckpointsTest, ADiskThatDoesNotAnswerIsToldWhileTrainingGoesOn) {
  keep_silent(7);
  begin(7);
  const std::string message =
      told<FileTimeout>({.seconds = 0.3, .key = "a.key", .last_words = false});
  EXPECT_EQ(message.find(store_.path_for_step(7).string() +
                         ": waited 0.3 s for it; look at the disk or the network that it lies on, "
                         "or raise a.key ("),
            0U)
      << message;
  answer();
}

}  // namespace
}  // namespace tandem
