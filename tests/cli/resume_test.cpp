#include <cmath>

#include "cli/run_folder.h"

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
  double loss_difference(int accumulate) {
    trained("whole", options_, 2);
    trained("part", set({"train.max_steps=13"}, options_), 2);
    std::vector<std::string> more =
        set({"train.accumulate=" + std::to_string(accumulate)}, options_);
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

  std::vector<std::string> options_ = set({"optimizer.lr=0.01"});
};

// Two micro-batches of 16 are the slices of the two ranks, so the mathematics is the same, batch
// normalisation included; only sums are rounded otherwise. Measured: 8.1e-8.
TEST_F(ResumeOnOneRank, WithTheSameSlicesIsTheSameUpToRounding) {
  EXPECT_LT(loss_difference(2), 8e-7);
}

// One batch of 32 holds the same samples, normalised over 32 instead of 16 at a time. Measured:
// 0.054. Other samples, those of another seed, would be further off.
TEST_F(ResumeOnOneRank, WithOneBatchHasTheSameSamples) {
  constexpr double tolerance = 0.15;
  EXPECT_LT(loss_difference(1), tolerance);
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

TEST_F(Resume, IntoAnotherFolderLeavesTheFirstAlone) {
  trained("a", set({"train.max_steps=9"}));
  const std::string before = read_file(path("a/metrics.jsonl"));
  trained("b", {"--resume", "a"});
  EXPECT_EQ(read_file(path("a/metrics.jsonl")), before);
  EXPECT_EQ(train_losses(path("b")).begin()->first, 10);
  EXPECT_EQ(checkpoint_steps(path("b")), (std::vector<int>{16, 24, 32}));
}

}  // namespace
}  // namespace tandem::cli
