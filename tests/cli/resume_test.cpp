#include <cmath>

#include "cli/run_folder.h"
#include "train/checkpoints/safetensors.h"

// A run that is stopped and goes on does what a run without a stop does.

namespace tandem::cli {
namespace {

class Resume : public RunTest, public testing::WithParamInterface<int> {};

TEST_P(Resume, FromTheMiddleOfAnEpochIsBitExact) {
  const int ranks = GetParam();
  const std::vector<std::string> options =
      set({"checkpoint.every_steps=5", "checkpoint.keep=100", "parallel.check_every=4"});
  trained("whole", options, ranks);
  // Ended right after step 17 wrote its record; the last checkpoint was step 16's, and earlier ones
  // are in the middle of an epoch.
  for (const int from : {5, 16, 20}) {
    const std::string out = "from" + std::to_string(from);
    trained(out, set({"train.max_steps=21"}, options), ranks);
    const Outcome resumed = train(
        out,
        [&] {
          std::vector<std::string> more = options;
          more.insert(more.end(), {"--resume", checkpoint(out, from).string()});
          return more;
        }(),
        ranks);
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("resuming at step " + std::to_string(from)), std::string::npos);
    EXPECT_EQ(train_losses(path(out)), train_losses(path("whole")));
    expect_same_checkpoint(checkpoint(path(out), 32), checkpoint(path("whole"), 32));
    EXPECT_EQ(read_metrics(path(out), "start").size(), 2U);
    EXPECT_EQ(read_metrics(path(out), "evaluation").size(), 4U);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Resume, testing::Values(1, 2));

using ResumeFromOlder = RunTest;

// The checkpoints that the abandoned part of the run left are of higher steps: they must neither
// push out the new ones nor be taken for the newest.
TEST_F(ResumeFromOlder, LeavesTheNewerCheckpointsBehind) {
  const std::vector<std::string> options =
      set({"checkpoint.every_steps=8", "checkpoint.keep=2", "train.max_steps=24"});
  trained("out", options);
  ASSERT_EQ(checkpoint_steps(path("out")), (std::vector<int>{16, 24}));
  std::vector<std::string> more = set({"train.max_steps=20"}, options);
  more.insert(more.end(), {"--resume", checkpoint(path("out"), 16).string()});
  trained("out", more);
  EXPECT_EQ(checkpoint_steps(path("out")), (std::vector<int>{16, 20}));
  EXPECT_EQ(train_losses(path("out")).rbegin()->first, 20);
}

// A --set that is not given again, as one that is given now, is told.
TEST_F(ResumeFromOlder, TellsWhatIsSetOtherwiseThanBefore) {
  const std::vector<std::string> options = set({"checkpoint.every_steps=8"});
  trained("out", set({"train.max_steps=16", "optimizer.lr=0.01"}, options));
  const std::string before = read_file(path("out/config.toml"));
  std::vector<std::string> more = set({"train.max_steps=24"}, options);
  more.emplace_back("--resume");
  const Outcome changed = train("out", more);
  EXPECT_EQ(changed.code, 0) << changed.err;
  EXPECT_NE(changed.err.find("settings that changed: optimizer.lr: 0.01, now "), std::string::npos)
      << changed.err;
  EXPECT_NE(changed.err.find("; train.max_steps: 16, now 24; the config of the steps before is in "
                             "out/config-until-step-16.toml\n"),
            std::string::npos)
      << changed.err;
  EXPECT_EQ(read_file(path("out/config-until-step-16.toml")), before);
  // The config that trained those steps is kept, whatever comes behind.
  write_file(path("out/config.toml"), "[optimizer]\nlr = 7.0\n");
  more.emplace_back(checkpoint(path("out"), 16).string());
  trained("out", more);
  EXPECT_EQ(read_file(path("out/config-until-step-16.toml")), before);
}

// Wherever it lies, and wherever the command is started.
TEST_F(ResumeFromOlder, ARunsOwnConfigGoesOnInItsFolder) {
  trained("elsewhere/out", set({"train.max_steps=16", "optimizer.lr=0.01"}));
  const Outcome same =
      command({"train", "elsewhere/out/config.toml", "--set", "train.max_steps=20", "--resume"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(checkpoint_steps(path("elsewhere/out")).back(), 20);
  EXPECT_NE(same.err.find("settings that changed: train.max_steps: 16, now 20; the config"),
            std::string::npos)
      << same.err;
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

// Steps between the last record and a checkpoint are recorded with the checkpoint.
TEST_F(ResumeFromOlder, RecordsWhatLongIntervalsHold) {
  const std::vector<std::string> options =
      set({"train.log_every=10", "checkpoint.every_steps=7", "checkpoint.keep=100"});
  trained("whole", options);
  trained("out", options);
  std::vector<std::string> more = options;
  more.insert(more.end(), {"--resume", checkpoint(path("out"), 14).string()});
  trained("out", more);
  EXPECT_EQ(train_losses(path("out")), train_losses(path("whole")));
  EXPECT_TRUE(train_losses(path("out")).contains(14));
}

// Whatever asks for a record, it is of the steps since the one before.
TEST_F(ResumeFromOlder, EachRecordIsOfItsOwnSteps) {
  trained("each", set({}));
  trained("out", set({"train.log_every=10", "checkpoint.every_steps=7", "parallel.check_every=3"}));
  const std::vector<Record> each = read_metrics(path("each"), "train");
  ASSERT_EQ(each.size(), 32U);
  for (const int step : {1, 4}) {  // of a warm-up of four
    EXPECT_DOUBLE_EQ(each[static_cast<std::size_t>(step) - 1]["learning_rate"], 0.1 * step / 5.0);
  }
  std::vector<int> steps;
  int before = 0;
  for (const Record& record : read_metrics(path("out"), "train")) {
    const int step = static_cast<int>(record["step"]);
    steps.push_back(step);
    const Record& last = each[static_cast<std::size_t>(step) - 1];
    EXPECT_EQ(last["step"], step);
    EXPECT_EQ(record["learning_rate"], last["learning_rate"]) << step;
    EXPECT_EQ(record["epoch"], last["epoch"]) << step;
    EXPECT_EQ(record["samples"], 32 * (step - before)) << step;
    double loss = 0.0;
    for (int i = before; i < step; ++i) loss += each[static_cast<std::size_t>(i)]["loss"];
    loss /= step - before;
    EXPECT_NEAR(record["loss"], loss, 1e-6 * loss) << step;
    before = step;
  }
  EXPECT_EQ(steps, (std::vector<int>{7, 8, 10, 14, 16, 20, 21, 24, 28, 30, 32}));
}

// steps an epoch = checkpoint.every_steps: the epoch's end is such a step too.
TEST_F(ResumeFromOlder, CountsStepsAtTheEndOfAnEpochToo) {
  trained("out", set({"checkpoint.every_steps=8", "checkpoint.every_epochs=100",
                      "train.eval_every=100", "checkpoint.keep=100"}));
  EXPECT_EQ(checkpoint_steps(path("out")), (std::vector<int>{8, 16, 24, 32}));
}

/// A run of two ranks that goes on from step 13 on one rank.
class ResumeOnOneRank : public RunTest {
 protected:
  /// The largest relative difference of the losses after step 13 from those of an undivided run on
  /// two ranks. Expects the same steps, and the same bits before.
  double loss_difference(const std::string& setting) {
    trained("whole", options_, 2);
    trained("part", set({"train.max_steps=13"}, options_), 2);
    std::vector<std::string> more = set({setting}, options_);
    more.emplace_back("--resume");
    trained("part", more);
    const std::map<int, double> whole = train_losses(path("whole"));
    const std::map<int, double> part = train_losses(path("part"));
    EXPECT_EQ(part.size(), whole.size());
    for (int step = 1; step <= 13; ++step) EXPECT_EQ(part.at(step), whole.at(step));
    return difference_after(13, part, whole);
  }

  double difference_after(int first, const std::map<int, double>& a,
                          const std::map<int, double>& b) {
    double largest = 0.0;
    for (const auto& [step, loss] : b) {
      if (step > first) largest = std::max(largest, std::abs(a.at(step) - loss) / loss);
    }
    std::printf("largest relative difference of a loss: %.2e\n", largest);
    return largest;
  }

  std::vector<std::string> options_ = set({"optimizer.lr=0.01", smooth_model()});
};

constexpr double rounding = 1e-6;  ///< measured: 1.2e-7 with any instruction set

// Two micro-batches of 16 are the slices of the two ranks, so the mathematics is the same, batch
// normalisation included; only sums are rounded otherwise.
TEST_F(ResumeOnOneRank, WithTheSameSlicesIsTheSameUpToRounding) {
  EXPECT_LT(loss_difference("train.accumulate=2"), rounding);
}

// So are two ranks that one process carries.
TEST_F(ResumeOnOneRank, WithFoldedRanksIsTheSameUpToRounding) {
  EXPECT_LT(loss_difference("parallel.folded_ranks=2"), rounding);
}

// One batch of 32 holds the same samples, normalised over 32 instead of 16 at a time. Measured:
// 0.026. Other samples, those of another seed, are further off: 0.1.
TEST_F(ResumeOnOneRank, WithOneBatchHasTheSameSamples) {
  constexpr double tolerance = 0.05;
  EXPECT_LT(loss_difference("train.accumulate=1"), tolerance);
  trained("other", set({"train.seed=2"}, options_), 2);
  EXPECT_GT(difference_after(13, train_losses(path("other")), train_losses(path("whole"))),
            tolerance);
}

TEST_F(Resume, OfAFinishedRunSaysSo) {
  trained("out", set({"train.epochs=1"}));
  const Outcome again = train("out", set({"train.epochs=1"}, {"--resume"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("all 8 steps are done already; raise train.epochs"), std::string::npos)
      << again.err;
  EXPECT_EQ(train_losses(path("out")).size(), 8U);
}

// Which its weights were trained with, and are evaluated with.
TEST_F(Resume, OfAFinishedRunLeavesItsConfigAlone) {
  trained("out", set({"train.epochs=1"}));
  const std::string config = read_file(path("out/config.toml"));
  for (const char* epochs : {"train.epochs=1", "train.epochs=2"}) {
    const bool done = std::string(epochs).ends_with('1');
    trained("out", set({epochs, "data.mean=0.25", "train.max_steps=9"}, {"--resume"}));
    EXPECT_EQ(read_file(path("out/config.toml")) == config, done);
    EXPECT_EQ(std::filesystem::exists(path("out/config-until-step-8.toml")), !done);
  }
  const Outcome less = train("out", set({"train.epochs=1"}, {"--resume"}));
  EXPECT_EQ(less.code, 0) << less.err;
  EXPECT_EQ(read_metrics(path("out"), "end").back()["steps"], 9.0);
}

TEST_F(Resume, IntoAnotherFolderLeavesTheFirstAlone) {
  trained("a", set({"train.max_steps=9"}));
  const std::string before = read_file(path("a/metrics.jsonl"));
  trained("b", {"--resume", "a"});
  EXPECT_EQ(read_file(path("a/metrics.jsonl")), before);
  EXPECT_EQ(train_losses(path("b")).begin()->first, 10);
  EXPECT_EQ(checkpoint_steps(path("b")), (std::vector<int>{16, 24, 32}));
}

TEST_F(Resume, IntoAnotherFolderWithNothingLeftToDoIsRefused) {
  trained("a", set({"train.max_steps=9"}));
  const Outcome refused = train("b", set({"train.max_steps=9"}, {"--resume", "a"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--resume a: it is at step 9 already, and this run ends at step 9; "
                             "raise train.max_steps"),
            std::string::npos)
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(path("b")));
}

TEST_F(Resume, IntoAnotherFolderOfARunThatStoppedEarlyIsRefused) {
  const std::vector<std::string> patient =
      set({"train.early_stop_patience=1", "train.early_stop_min_delta=1"});
  trained("a", patient);
  ASSERT_LT(train_losses(path("a")).rbegin()->first, 32);
  std::vector<std::string> more = patient;
  more.insert(more.end(), {"--resume", "a"});
  const Outcome refused = train("b", more);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(
      refused.err.find("--resume a: it has stopped early (top1 has not risen by more than 1 "),
      std::string::npos)
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(path("b")));
}

TEST_F(Resume, FromTheFolderOfARunsCheckpoints) {
  trained("a", set({"train.max_steps=9"}));
  trained("a", set({"train.max_steps=10"}, {"--resume", "a/checkpoints"}));
  trained("b", set({"train.max_steps=11"}, {"--resume", "a/checkpoints/"}));
  EXPECT_EQ(train_losses(path("a")).rbegin()->first, 10);
  EXPECT_EQ(train_losses(path("b")).begin()->first, 11);
}

class ResumeInAnothersFolder : public RunTest {
 protected:
  /// Of a run "a" of 16 steps.
  void expect_refused(const std::string& resume_from) const {
    const std::string before = read_file(path("a/metrics.jsonl"));
    const Outcome refused = train("a", {"--resume", resume_from});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("a holds another run already; choose another --out"),
              std::string::npos)
        << refused.err;
    EXPECT_EQ(read_file(path("a/metrics.jsonl")), before);
    EXPECT_EQ(checkpoint_steps(path("a")), (std::vector<int>{8, 16}));
  }
};

TEST_F(ResumeInAnothersFolder, IsRefused) {
  trained("a", set({"train.max_steps=16"}));
  trained("b", set({"train.max_steps=8"}));
  expect_refused("b");
}

// Whose folder lies in the other's, which makes it no part of that.
TEST_F(ResumeInAnothersFolder, IsRefusedThoughTheRunLiesWithinIt) {
  trained("a", set({"train.max_steps=16"}));
  trained("a/finer", set({"train.max_steps=8"}));
  expect_refused("a/finer");
  expect_refused(checkpoint(path("a/finer"), 8).string());
}

TEST_F(Resume, InPlaceByACheckpointPutBesideTheOthers) {
  trained("a", set({"train.max_steps=8"}));
  std::filesystem::copy_file(checkpoint(path("a"), 8), path("a/copy.safetensors"));
  trained("a", set({"train.max_steps=9"}, {"--resume", "a/copy.safetensors"}));
  EXPECT_EQ(train_losses(path("a")).rbegin()->first, 9);
}

TEST_F(Resume, InPlaceThoughItsCheckpointsLieBehindALink) {
  std::filesystem::create_directories(path("scratch"));
  std::filesystem::create_directories(path("a"));
  std::filesystem::create_directory_symlink(path("scratch"), path("a/checkpoints"));
  trained("a", set({"train.max_steps=8"}));
  std::filesystem::create_symlink(path("scratch/step-00000008.safetensors"), path("a/newest"));
  std::filesystem::remove(path("scratch/best.safetensors"));
  trained("a", set({"train.max_steps=9"}, {"--resume", "a/newest"}));
  EXPECT_EQ(train_losses(path("a")).rbegin()->first, 9);
  EXPECT_FALSE(std::filesystem::is_symlink(path("scratch/best.safetensors")));
}

// As a run leaves it that is killed between its best checkpoint and naming that the best.
TEST_F(Resume, FromTheBestCheckpointMakesItTheBest) {
  const std::filesystem::path best = path("a/checkpoints/best.safetensors");
  trained("a", set({"train.max_steps=8"}));
  const std::string checkpoint_of_8 = read_file(checkpoint(path("a"), 8));
  ASSERT_EQ(read_file(best), checkpoint_of_8);
  trained("older", set({"train.max_steps=4"}));
  for (const bool older : {false, true}) {
    std::filesystem::remove(best);
    if (older) std::filesystem::copy_file(checkpoint(path("older"), 4), best);
    const Outcome resumed = train("a", set({"train.max_steps=8"}, {"--resume"}));
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("and becomes best.safetensors"), std::string::npos) << resumed.err;
    EXPECT_EQ(read_file(best), checkpoint_of_8);
  }
  const Outcome again = train("a", set({"train.max_steps=8"}, {"--resume"}));
  EXPECT_EQ(again.err.find("and becomes best.safetensors"), std::string::npos) << again.err;
}

// A best checkpoint alone is worth as much as a whole run.
TEST_F(Resume, AFolderWithOnlyTheBestCheckpointIsNotOverwritten) {
  trained("a", set({"train.max_steps=8"}));
  std::filesystem::remove(checkpoint(path("a"), 8));
  const std::string best = read_file(path("a/checkpoints/best.safetensors"));
  EXPECT_EQ(train("a").code, 2);
  EXPECT_EQ(read_file(path("a/checkpoints/best.safetensors")), best);
}

// The best of steps that the run goes back behind is neither overwritten nor taken for its own.
TEST_F(ResumeFromOlder, SetsTheBestOfLaterStepsAside) {
  trained("out", set({"checkpoint.every_steps=8", "checkpoint.keep=100", "train.eval_every=4"}));
  const std::string best = read_file(path("out/checkpoints/best.safetensors"));
  trained("out", set({"train.max_steps=16", "train.eval_every=4"},
                     {"--resume", checkpoint(path("out"), 8).string()}));
  EXPECT_EQ(read_file(path("out/checkpoints/best-of-step-00000032.safetensors")), best);
  EXPECT_EQ(read_file(path("out/checkpoints/best.safetensors")),
            read_file(checkpoint(path("out"), 16)));
}

// One that fails before its first checkpoint leaves what it went on from, and what was newer.
TEST_F(ResumeFromOlder, FromTheBestThatFailsAtOnceCanGoOn) {
  const std::vector<std::string> options = set({"checkpoint.every_steps=8", "checkpoint.keep=1"});
  trained("out", set({"train.max_steps=8"}, options));
  const std::filesystem::path best = path("out/checkpoints/best.safetensors");
  const std::string of_8 = read_file(best);
  trained("out", set({"train.max_steps=16", "train.eval_every=1000"}, {"--resume"}));
  write_file(best, of_8);
  std::filesystem::remove(checkpoint(path("out"), 8));
  const Outcome failed =
      train("out", set({"optimizer.lr=1000000", "checkpoint.keep=1"}, {"--resume", best.string()}));
  EXPECT_EQ(failed.code, 2);
  EXPECT_NE(failed.err.find("stays as step-00000016.safetensors.superseded until the next "),
            std::string::npos)
      << failed.err;
  EXPECT_NE(failed.err.find("the last checkpoint is out/checkpoints/step-00000008.safetensors"),
            std::string::npos)
      << failed.err;
  EXPECT_TRUE(read_file(checkpoint(path("out"), 8)) == of_8);
  EXPECT_TRUE(
      std::filesystem::exists(path("out/checkpoints/step-00000016.safetensors.superseded")));
  EXPECT_NE(read_file(path("out/metrics.jsonl.superseded")).find("\"step\": 16"),
            std::string::npos);
  trained("out", set({"train.max_steps=9", "checkpoint.keep=1"}, {"--resume"}));
  EXPECT_EQ(checkpoint_steps(path("out")), std::vector<int>{9});
  EXPECT_FALSE(
      std::filesystem::exists(path("out/checkpoints/step-00000016.safetensors.superseded")));
}

// Which is of the same step: else a restart would go back behind it.
TEST_F(ResumeFromOlder, FromTheBestInPlaceOfADamagedOne) {
  const std::filesystem::path best = path("out/checkpoints/best.safetensors");
  trained("out", set({"train.max_steps=8"}));
  const std::string sound = read_file(best);
  std::filesystem::remove(checkpoint(path("out"), 8));
  write_file(checkpoint(path("out"), 8), sound.substr(0, sound.size() / 2));
  ASSERT_TRUE(read_file(best) == sound);
  trained("out", set({"train.max_steps=8"}, {"--resume", best.string()}));
  EXPECT_TRUE(read_file(checkpoint(path("out"), 8)) == sound);
}

TEST_F(Resume, ByTheBestCheckpointWhereThereIsNoOther) {
  trained("a", set({"train.max_steps=8"}));
  std::filesystem::remove(checkpoint(path("a"), 8));
  trained("a", set({"train.max_steps=9"}, {"--resume"}));
  EXPECT_EQ(train_losses(path("a")).rbegin()->first, 9);
}

// Its parameters say whether it is the same one.
TEST_F(Resume, OfAModelWhoseFileLiesElsewhereNow) {
  const std::string model = "resnet8.toml";
  const std::filesystem::path file = std::filesystem::path(TANDEM_MODELS_FOLDER) / model;
  trained("a", set({"train.max_steps=8", "model.name=resnet8"}));
  std::filesystem::copy_file(file, path(model));
  trained("a", set({"train.max_steps=9", "model.name=./" + model}, {"--resume"}));
  EXPECT_EQ(train("a", set({"train.max_steps=10", "model.name=resnet20"}, {"--resume"})).code, 2);
  trained("a", set({"train.max_steps=10", "model.name=resnet8"}, {"--resume"}));
}

// A checkpoint that counts what cannot be is refused before anything is done by it.
TEST_F(Resume, ImpossibleCountsAreRefused) {
  trained("a", set({"train.max_steps=8"}));
  const SafetensorsFile file(checkpoint(path("a"), 8));
  const std::vector<NamedTensor> tensors(file.tensors().begin(), file.tensors().end());
  struct Edit {
    const char* key;
    const char* value;
    const char* part;  ///< of the message
  };
  for (const auto& [key, value, part] :
       {Edit{"steps_per_epoch", "0", "steps an epoch: 0"}, Edit{"step", "-3", "-3 is no possible"},
        Edit{"step", "9223372036854775807", "is no possible step"},
        Edit{"steps_per_epoch", "7", "steps an epoch: 7, this run has 8"}}) {
    SafetensorsMetadata metadata = file.metadata();
    metadata.erase("crc32");
    metadata[key] = value;
    write_safetensors(path("edited.safetensors"), tensors, metadata, WriteChecksum::yes);
    const Outcome refused = train("b", {"--resume", "edited.safetensors"});
    EXPECT_EQ(refused.code, 2) << key << '=' << value;
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
    write_safetensors(path("unsealed.safetensors"), tensors, metadata);
    EXPECT_EQ(train("b", {"--resume", "unsealed.safetensors"}).code, 2);
  }
}

}  // namespace
}  // namespace tandem::cli
