#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <regex>

#include "base/remove_folder.h"
#include "cli/faults/fault_check.h"
#include "cli/message_check.h"
#include "cli/photos.h"
#include "cli/run_folder.h"
#include "train/checkpoints/safetensors.h"

// What can be wrong with a run's folder, and what goes wrong in the middle of training.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// Every file below `folder` with its text.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
  }
  return files;
}

class BadRun : public RunTest, public ::testing::WithParamInterface<int> {
 protected:
  /// The run is of a few photos in folders instead.
  void use_photos() {
    write_photos(path("photos"));
    replace_in(path("run.toml"),
               "kind = \"synthetic\"\ntrain_size = 270\ntest_size = 70\nheight = 8\nwidth = 8\n"
               "channels = 1\nclasses = 4\n",
               "kind = \"folder\"\npath = \"photos\"\nsize = 8\n");
  }
};

TEST_P(BadRun, IsLeftUntouchedByAWrongCommand) {
  const int ranks = GetParam();
  trained("out", set({"train.max_steps=3"}));
  const auto before = contents(path("out"));
  expect_one_message(
      train("out", {}, ranks),
      {"out holds a run already; go on with it by --resume or choose another --out"});
  EXPECT_EQ(contents(path("out")), before);
  expect_one_message(train("out", set({"train.seed=4"}, {"--resume"}), ranks),
                     {"step-00000003.safetensors was made with train.seed 1, this run has 4"});
  EXPECT_EQ(contents(path("out")), before);
  expect_one_message(train("out", set({"model.name=resnet20"}, {"--resume"}), ranks),
                     {"was made with model.name resnet8, this run has resnet20"});
  EXPECT_EQ(contents(path("out")), before);
  expect_one_message(command({"eval", "out", "--set", "data.classes=5"}, ranks),
                     {"best.safetensors does not fit the model: 'fc.weight'"});
  expect_one_message(command({"eval", "run.toml"}, ranks), {"needs --weights FILE"});
}

TEST_P(BadRun, KeepsASecondRunOutWhileItLives) {
  const int ranks = GetParam();
  Program first({.command = train_command("out", endless(), ranks), .folder = root()});
  wait_until("a few steps are done", 30.0,
             [&] { return occurrences(read_file(path("out/metrics.jsonl")), "\"train\"") >= 3; });
  std::string holder = read_file(path("out/run.lock"));
  ASSERT_TRUE(holder.ends_with('\n')) << holder;
  holder.pop_back();
  const pid_t process = ranks == 1 ? first.id() : first.rank_process(0);
  // Two jobs of several ranks would starve each other.
  hold(process);
  if (ranks > 1) hold(first.rank_process(1));
  EXPECT_TRUE(holder.ends_with(", process " + std::to_string(process))) << holder;
  const std::string message = "another run (" + holder + ") is writing to out; ";
  expect_one_message(train("out", {}, ranks), {message});
  expect_one_message(train("out", {"--resume"}, ranks), {message});
  // Its death leaves the file behind, which is no obstacle.
  Program::signal(process, SIGKILL);
  static_cast<void>(first.wait());
  trained("out", set({"train.max_steps=3"}), ranks);
  EXPECT_FALSE(fs::exists(path("out/run.lock")));
}

TEST_P(BadRun, UnwritableFolder) {
  write_file(path("file"), "");
  const int ranks = GetParam();
  expect_one_message(train("file/out", {}, ranks), {"file/out", "--out"});
  // The folder is there, its log cannot be written.
  fs::create_directories(path("out/train.log"));
  expect_one_message(train("out", {}, ranks), {"out/train.log"});
}

// As where somebody keeps a run's config in the folder that is to be the run's.
TEST_P(BadRun, DoesNotReplaceTheConfigThatItReads) {
  fs::create_directories(path("own"));
  fs::copy_file(path("run.toml"), path("own/config.toml"));
  const std::string config = read_file(path("own/config.toml"));
  const int ranks = GetParam();
  expect_one_message(command({"train", "own/config.toml", "--out", "own"}, ranks),
                     {"own/config.toml: the run would replace it by what it keeps as "
                      "own/config.toml; choose another --out"});
  EXPECT_EQ(read_file(path("own/config.toml")), config);
  EXPECT_EQ(contents(path("own")).size(), 1U);
  // A run's own is. What an earlier one has listed is not its own.
  fs::create_directories(path("out"));
  write_file(path("out/bad_samples.txt"), "one of an earlier run\n");
  trained("out", set({"train.max_steps=1"}), ranks);
  EXPECT_FALSE(fs::exists(path("out/bad_samples.txt")));
  fs::remove_all(path("out/checkpoints"));
  EXPECT_EQ(command({"train", "out/config.toml", "--set", "train.max_steps=2"}, ranks).code, 0);
}

TEST_P(BadRun, DamagedCheckpointFallsBackToAnOlderOne) {
  const int ranks = GetParam();
  const std::vector<std::string> options = set({"checkpoint.every_steps=2"});
  trained("out", set({"train.max_steps=6"}, options), ranks);
  std::vector<std::string> resume = options;
  resume.emplace_back("--resume");
  {
    std::fstream file(checkpoint(path("out"), 6), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-100, std::ios::end);
    file.put('!');
  }
  const Outcome outcome = train("out", resume, ranks);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: skipping a checkpoint: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("resuming at step 4 from out/checkpoints/step-00000004.safetensors"),
            std::string::npos)
      << outcome.err;
  trained("whole", options, ranks);
  expect_same_checkpoint(checkpoint(path("out"), 32), checkpoint(path("whole"), 32));
  EXPECT_EQ(train_losses(path("out")), train_losses(path("whole")));
  // All damaged, and a damaged one asked for by name.
  for (const int step : checkpoint_steps(path("out"))) {
    fs::resize_file(checkpoint(path("out"), step), 1000);
  }
  expect_one_message(train("out", resume, ranks), {"none of the 3 checkpoints in", "is sound"});
  expect_one_message(train("out", {"--resume", checkpoint("out", 32).string()}, ranks),
                     {"out/checkpoints/step-00000032.safetensors", "no sound safetensors file"});
}

TEST_P(BadRun, LossThatIsNotFiniteNamesStepLayerAndLastCheckpoint) {
  const int ranks = GetParam();
  const Outcome outcome = train(
      "out", set({"optimizer.lr=1e6", "schedule.warmup_epochs=1", "checkpoint.every_steps=1"}),
      ranks);
  // The loss, or before it the weights that a checkpoint would hold; each with what was so first.
  expect_one_message(outcome, {" not finite at step ", "lower optimizer.lr",
                               "the last checkpoint is out/checkpoints/step-"});
  const std::regex place(
      "not finite at step [0-9]+: "
      "(first so is .*'|first so was the gradient of '|the update of step [0-9]+ made ')[a-z]");
  EXPECT_TRUE(std::regex_search(outcome.err, place)) << outcome.err;
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_FALSE(steps.empty());
  const std::string last = checkpoint("out", steps.back()).string();
  EXPECT_NE(outcome.err.find("the last checkpoint is " + last), std::string::npos);
  EXPECT_NE(outcome.err.find(fmt::format("at step {}:", steps.back() + 1)), std::string::npos);
  EXPECT_EQ(command({"weights", "export", last, "w.safetensors"}).code, 0);
  EXPECT_NE(read_file(path("out") / "train.log").find(" not finite at step "), std::string::npos);
}

TEST_P(BadRun, WeightsOfAnotherModelListTheFirstMismatches) {
  trained("small", set({"train.max_steps=1"}));
  // resnet20 has the layers of resnet8 and two more blocks a stage, of six tensors and more each.
  const Outcome outcome =
      train("out", set({"model.name=resnet20", "train.init=small/checkpoints/best.safetensors"}),
            GetParam());
  expect_one_message(outcome,
                     {"train.init: small/checkpoints/best.safetensors does not fit the model: "
                      "'layer1.1.conv1.weight' is missing; ",
                      " more; give weights of the same model, classes and input channels"});
  EXPECT_EQ(occurrences(outcome.err, "is missing"), 5U) << outcome.err;
}

TEST_P(BadRun, LossThatIsNotFiniteNamesTheLayer) {
  const int ranks = GetParam();
  trained("first", set({"train.max_steps=1"}));
  const SafetensorsFile sound(path("first/checkpoints/best.safetensors"));
  std::vector<NamedTensor> tensors(sound.tensors().begin(), sound.tensors().end());
  std::vector<float> huge;
  for (NamedTensor& tensor : tensors) {
    if (tensor.name != "layer2.0.conv1.weight") continue;
    // Finite, but their sums are not.
    huge.assign(static_cast<std::size_t>(tensor.shape.elements()), 3e38F);
    tensor.data = huge.data();
  }
  write_safetensors(path("huge.safetensors"), tensors);
  const Outcome outcome = train("out", set({"train.init=huge.safetensors"}), ranks);
  expect_one_message(outcome, {"the loss is not finite at step 1: first so is the output of layer "
                               "'layer2.0.conv1'"});
  EXPECT_EQ(outcome.err.find("--resume"), std::string::npos) << "there is no checkpoint";
  EXPECT_TRUE(checkpoint_steps(path("out")).empty());
}

TEST_P(BadRun, BrokenPictureInTheMiddleOfTraining) {
  const int ranks = GetParam();
  use_photos();
  const std::vector<std::string> options =
      set({"train.global_batch=2", "checkpoint.every_steps=1", "schedule.warmup_epochs=0"});
  trained("good", options, ranks);
  const fs::path broken = path("photos/train/dog/2.jpg");
  const std::string whole = read_file(broken);
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 8), std::string("no picture"), std::string()}) {
    SCOPED_TRACE(::testing::Message() << bytes.size() << " bytes of " << whole.size());
    write_file(broken, bytes);
    ASSERT_TRUE(remove_folder(path("out")));  // a rank of before may be writing there yet
    const Outcome outcome = train("out", options, ranks);
    // Whichever rank draws the picture says so, for rank 0 is waiting for it.
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("error: photos/train/dog/2.jpg: cannot be decoded as JPEG"),
              std::string::npos)
        << outcome.err;
  }
}

TEST_P(BadRun, ClassWithoutPictures) {
  use_photos();
  fs::create_directories(path("photos/train/unicorn"));
  const Outcome outcome = train("out", set({"train.global_batch=2"}), GetParam());
  expect_one_message(outcome, {"photos/train/unicorn"});
}

// Of one rank alone, behind which the other ones wait: they do not take it for hung while it lets
// lower ranks speak first.
TEST_F(BadRun, IsToldBeforeOtherRanksGiveUpTheOneThatMeetsIt) {
  use_photos();
  const fs::path broken = path("photos/train/dog/2.jpg");
  fs::resize_file(broken, fs::file_size(broken) / 8);
  const Outcome outcome = train("out",
                                set({"train.global_batch=2", "train.epochs=1", "train.seed=2",
                                     "schedule.warmup_epochs=0", "parallel.timeout_seconds=8"}),
                                2);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  // With another seed it is rank 0 that draws the picture.
  EXPECT_NE(outcome.err.find("[rank 1] error: photos/train/dog/2.jpg: cannot be decoded as JPEG"),
            std::string::npos)
      << outcome.err;
}

TEST_P(BadRun, SkipsBrokenPicturesWhereAsked) {
  const int ranks = GetParam();
  use_photos();
  replace_in(path("run.toml"), "size = 8\n", "size = 8\non_bad_sample = \"skip\"\n");
  fs::resize_file(path("photos/train/dog/2.jpg"), 0);  // empty
  const fs::path truncated = path("photos/train/cat/1.jpg");
  fs::resize_file(truncated, fs::file_size(truncated) / 2);
  write_file(path("photos/validation/cat/3.jpg"), "no picture");  // corrupt
  // Of a run that was killed before its first checkpoint.
  fs::create_directories(path("out"));
  write_file(path("out/bad_samples.txt"), "one of an earlier run\n");
  trained("out",
          set({"train.global_batch=2", "train.epochs=3", "schedule.warmup_epochs=0",
               "checkpoint.every_steps=3"}),
          ranks);
  const std::string list = read_file(path("out/bad_samples.txt"));
  EXPECT_EQ(occurrences(list, "\n"), 3U) << list;
  for (const char* file : {"train/dog/2.jpg", "train/cat/1.jpg", "validation/cat/3.jpg"}) {
    EXPECT_NE(list.find(fmt::format("photos/{}: cannot be decoded as JPEG", file)),
              std::string::npos)
        << list;
  }
  // Both bad training pictures come once in each of three epochs of four steps of two; the bad test
  // picture once an evaluation.
  int skipped = 0;
  for (const Record& record : read_metrics(path("out"), "bad_samples")) {
    skipped += static_cast<int>(record["skipped"]);
    EXPECT_LE(record["distinct"], 3.0);
  }
  EXPECT_EQ(skipped, 3 * 2 + 3 * 1);
  for (const Record& record : read_metrics(path("out"), "evaluation")) {
    EXPECT_EQ(record["samples"], 7.0);
    EXPECT_EQ(record["skipped"], 1.0);
  }
  for (const Record& record : read_metrics(path("out"), "train")) {
    EXPECT_EQ(static_cast<int>(record["samples"]) % 2, 0);  // ranks stay in step
  }
  const Outcome evaluated = command({"eval", "out"}, ranks);
  EXPECT_NE(evaluated.out.find("on 7 samples, 1 skipped"), std::string::npos) << evaluated.out;
}

TEST_P(BadRun, TakesNoEvaluationForTheBestWhoseLossIsNotFinite) {
  trained("first", set({"train.max_steps=1"}));
  const std::string saved = "first/checkpoints/step-00000001.safetensors";
  ASSERT_EQ(command({"weights", "export", saved, "near.safetensors"}).code, 0);
  // Running statistics that training does not look at, so far off that outputs overflow; before the
  // last layers a maximum would hide it.
  const SafetensorsFile near(path("near.safetensors"));
  std::vector<NamedTensor> tensors(near.tensors().begin(), near.tensors().end());
  const std::vector<float> far(64, -3e38F);
  const auto mean = std::ranges::find(tensors, "layer3.0.bn2.running_mean", &NamedTensor::name);
  ASSERT_TRUE(mean != tensors.end() && mean->bytes() <= far.size() * sizeof(float));
  mean->data = far.data();
  write_safetensors(path("far.safetensors"), tensors, near.metadata());
  const Outcome outcome =
      train("out", set({"train.init=\"far.safetensors\"", "train.epochs=1"}), GetParam());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string told = outcome.out + outcome.err;
  EXPECT_EQ(occurrences(told,
                        "warning: the loss of epoch 1's evaluation is not finite, and so it "
                        "is not the best: lower optimizer.lr\n"),
            1U)
      << told;
  EXPECT_EQ(told.find("best so far"), std::string::npos) << told;
  EXPECT_FALSE(fs::exists(path("out/checkpoints/best.safetensors")));
  EXPECT_NE(command({"eval", "out"}, GetParam()).out.find("loss nan"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Ranks, BadRun, ::testing::Values(1, 2));

}  // namespace
}  // namespace tandem::cli
