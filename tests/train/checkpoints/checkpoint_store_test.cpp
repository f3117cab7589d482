#include "train/checkpoints/checkpoint_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/host_tag.h"
#include "support/message.h"
#include "support/no_file_more.h"
#include "train/checkpoints/run_checkpoints.h"
#include "train/checkpoints/safetensors.h"
#include "train/scratch.h"

namespace tandem {
namespace {

class CheckpointStoreTest : public ScratchTest {
 protected:
  void save(std::int64_t step) {
    write_safetensors(store_.path_for_step(step),
                      std::vector<NamedTensor>{{"x", DType::i64, Shape{}, &step}},
                      {{"step", std::to_string(step)}}, WriteChecksum::yes);
  }
  void damage(std::int64_t step) {
    std::string bytes = get(store_.path_for_step(step));
    bytes.back() = static_cast<char>(bytes.back() ^ 4);
    put(store_.path_for_step(step), bytes);
  }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(store_.folder())) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

  CheckpointStore store_{path("run") / "checkpoints"};
};

TEST_F(CheckpointStoreTest, AFolderThatIsNotThereIsEmpty) {
  EXPECT_TRUE(store_.list().empty());
  EXPECT_EQ(store_.newest(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(store_.folder()));
  store_.create_folder();
  store_.create_folder();
  EXPECT_EQ(store_.newest(), std::nullopt);
}

TEST_F(CheckpointStoreTest, NamesAndOrder) {
  store_.create_folder();
  EXPECT_EQ(store_.path_for_step(1234).filename(), "step-00001234.safetensors");
  EXPECT_EQ(store_.best_path().filename(), "best.safetensors");
  for (const std::int64_t step : {900000000, 7, 100, 99}) save(step);
  // Other names are none of its business, near as they may be.
  for (const char* name : {"step-7.safetensors", "step-000000007.safetensors", "step-.safetensors",
                           "step-0000000x.safetensors", "step-00000008.safetensors.tmp.1",
                           "xstep-00000008.safetensors", "step--0000008.safetensors"}) {
    put(store_.folder() / name, "x");
  }
  const std::vector<StepCheckpoint> expected{{7, store_.path_for_step(7)},
                                             {99, store_.path_for_step(99)},
                                             {100, store_.path_for_step(100)},
                                             {900000000, store_.path_for_step(900000000)}};
  EXPECT_EQ(store_.list(), expected);
  EXPECT_EQ(store_.newest(), expected.back());
}

TEST_F(CheckpointStoreTest, ADamagedNewestFallsBackWithAWarning) {
  store_.create_folder();
  for (const std::int64_t step : {10, 20, 30}) save(step);
  damage(30);
  put(store_.path_for_step(40), "");
  write_safetensors(store_.path_for_step(50), {});  // Sound, but without a checksum.
  testing::internal::CaptureStderr();
  const auto newest = store_.newest();
  const std::string warnings = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->step, 20);
  for (const char* name : {"step-00000030", "step-00000040", "step-00000050"}) {
    EXPECT_NE(warnings.find(name), std::string::npos) << warnings;
  }
  EXPECT_NE(warnings.find("warning: "), std::string::npos);
  EXPECT_EQ(warnings.find("step-00000020"), std::string::npos);
}

TEST_F(CheckpointStoreTest, NoneSoundIsAnErrorRatherThanAFreshStart) {
  store_.create_folder();
  save(10);
  damage(10);
  testing::internal::CaptureStderr();
  const std::string message = message_of<InputError>([&] { store_.newest(); });
  testing::internal::GetCapturedStderr();
  EXPECT_NE(message.find("none of the 1 checkpoints"), std::string::npos) << message;
  EXPECT_NE(message.find(store_.folder().string()), std::string::npos) << message;
}

// Whose step is no longer kept by itself.
TEST_F(CheckpointStoreTest, ASoundBestIsNamedWhereNoneElseIs) {
  store_.create_folder();
  const std::string way_on = "go on with --resume " + store_.best_path().string();
  const auto message = [&] { return message_of<InputError>([&] { store_.newest(); }); };
  save(10);
  store_.set_best(store_.path_for_step(10));
  std::filesystem::remove(store_.path_for_step(10));
  save(20);
  damage(20);
  EXPECT_NE(message().find(way_on), std::string::npos) << message();
  put(store_.best_path(), "");
  EXPECT_EQ(message().find(way_on), std::string::npos) << message();
}

TEST_F(CheckpointStoreTest, KeepLastRemovesOldStepsAndDeadWritersFiles) {
  store_.create_folder();
  for (const std::int64_t step : {5, 10, 20, 30}) save(step);
  store_.set_best(store_.path_for_step(5));
  const auto written_by = [](pid_t process) {
    return fmt::format("step-00000040.safetensors.tmp.{}-{}-00000000", host_tag(), process);
  };
  const std::string own = written_by(::getpid());
  const std::string alive = written_by(::getppid());
  for (const std::string& name : {own, alive, std::string("notes.tmp.txt")}) {
    put(store_.folder() / name, "x");
  }
  store_.keep_last(2);
  EXPECT_EQ(names(),
            (std::set<std::string>{"step-00000020.safetensors", "step-00000030.safetensors",
                                   "best.safetensors", alive, "notes.tmp.txt"}));
  store_.keep_last(5);
  EXPECT_EQ(store_.list().size(), 2U);
  EXPECT_THROW(store_.keep_last(0), Error);
  // The best outlives its original.
  EXPECT_EQ(SafetensorsFile(store_.best_path(), ReadChecksum::required).metadata_at("step"), "5");
}

TEST_F(CheckpointStoreTest, LaterStepsStayAsideUntilTheNextCheckpoint) {
  store_.create_folder();
  for (const std::int64_t step : {5, 10, 20}) save(step);
  store_.drop_after(5);
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000005.safetensors",
                                            "step-00000010.safetensors.superseded",
                                            "step-00000020.safetensors.superseded"}));
  EXPECT_EQ(store_.newest()->step, 5);
  save(10);
  store_.drop_after(5);  // over the one of before
  save(8);
  store_.keep_last(2);
  EXPECT_EQ(names(),
            (std::set<std::string>{"step-00000005.safetensors", "step-00000008.safetensors"}));
}

TEST_F(CheckpointStoreTest, TheBestBecomesAStepsToo) {
  store_.create_folder();
  save(5);
  store_.set_best(store_.path_for_step(5));
  std::filesystem::remove(store_.path_for_step(5));
  store_.set_step(store_.best_path(), 5);
  EXPECT_EQ(names(), (std::set<std::string>{"best.safetensors", "step-00000005.safetensors"}));
  std::filesystem::remove(store_.best_path());
  EXPECT_EQ(store_.newest()->step, 5);
}

// A run that this ends is restarted, as one with a mistake in its config is not.
TEST_F(CheckpointStoreTest, AFolderThatTheMachineCannotOpenIsNoMistakeOfTheUsers) {
  store_.create_folder();
  save(1);
  const std::string folder = "'" + store_.folder().string() + "': Too many open files";
  const std::string file = "'" + store_.path_for_step(1).string() + "': Too many open files";
  std::vector<std::string> messages;
  {
    const NoFileMore none;
    messages.push_back(message_of<SystemError>([&] { (void)store_.list(); }));
    messages.push_back(message_of<SystemError>([&] { store_.keep_last(1); }));
    messages.push_back(
        message_of<SystemError>([&] { const SafetensorsFile unread(store_.path_for_step(1)); }));
  }
  EXPECT_EQ(messages, (std::vector<std::string>{"cannot list " + folder, "cannot list " + folder,
                                                "cannot read " + file}));
}

TEST_F(CheckpointStoreTest, TheWayOnIsToldWhateverTheMachineLacks) {
  store_.create_folder();
  save(1);
  const RunConfig config;
  const RunCheckpoints checkpoints({.folder = path("run"), .resume = false, .resume_from = {}},
                                   config);
  EXPECT_EQ(checkpoints.way_on(),
            "go on with --resume; the last checkpoint is " + store_.path_for_step(1).string());
  std::string told;
  {
    const NoFileMore none;
    told = checkpoints.way_on();
  }
  EXPECT_EQ(told, "go on with --resume, or start again where there is no checkpoint yet");
}

TEST_F(CheckpointStoreTest, SetBestReplacesAndRepeats) {
  store_.create_folder();
  save(1);
  save(2);
  const auto best = [&] { return SafetensorsFile(store_.best_path()).metadata_at("step"); };
  store_.set_best(store_.path_for_step(1));
  EXPECT_EQ(best(), "1");
  store_.set_best(store_.path_for_step(2));
  store_.set_best(store_.path_for_step(2));  // One file under both names already.
  EXPECT_EQ(best(), "2");
  EXPECT_EQ(names().size(), 3U);
  // A rewritten step file is a new file; the best stays what it was.
  write_safetensors(store_.path_for_step(2), {});
  EXPECT_EQ(best(), "2");
  EXPECT_NE(message_of<InputError>([&] {
              store_.set_best(store_.path_for_step(3));
            }).find("step-00000003.safetensors': No such file"),
            std::string::npos);
  EXPECT_EQ(best(), "2");
}

}  // namespace
}  // namespace tandem
