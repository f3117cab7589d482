#include "train/step/too_large_step.h"

#include <gtest/gtest.h>

#include "train/step/memory_share.h"

namespace tandem {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30U;
constexpr const char* advice = "lower it";

TooLargeStep training(std::size_t activations, std::size_t free) {
  return {.what = "a training step",
          .batch = 1000,
          .state = 2 * gib,
          .activations = activations,
          .memory = {.device = "NVIDIA X", .total = 80 * gib, .free = free}};
}

TEST(TooLargeStep, SaysWhatIsNeededWhatIsThereAndWhatFits) {
  // 0.9 * 78 - 2 = 68.2 GiB are left for 100 of a thousand samples.
  EXPECT_EQ(
      too_large_step_text(training(100 * gib, 78 * gib), advice),
      "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
      "at least 100.0 GiB of activations and 2.0 GiB of parameters, gradients and optimizer "
      "state, but of 80.0 GiB there are 78.0 GiB free; about 682 samples at once fit: lower it");
}

TEST(TooLargeStep, PointsToOthersWhereTheCardWouldDo) {
  EXPECT_EQ(too_large_step_text(training(50 * gib, 12 * gib), advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 50.0 GiB of activations and 2.0 GiB of parameters, gradients and optimizer "
            "state, but of 80.0 GiB there are 12.0 GiB free (nvidia-smi shows who has the rest); "
            "about 176 samples at once fit: lower it");
  // The card alone would not do either.
  EXPECT_EQ(too_large_step_text(training(100 * gib, 12 * gib), advice).find("nvidia-smi"),
            std::string::npos);
}

TEST(TooLargeStep, OfAnEvaluationIsWithoutState) {
  TooLargeStep step = training(100 * gib, 78 * gib);
  step.what = "an evaluation step";
  step.state = 0;
  EXPECT_EQ(too_large_step_text(step, advice),
            "an evaluation step of 1000 samples at once does not fit the memory of NVIDIA X: it "
            "needs at least 100.0 GiB of activations, but of 80.0 GiB there are 78.0 GiB free; "
            "about 702 samples at once fit: lower it");
}

TEST(TooLargeStep, OfAStateThatIsTooLargeByItselfNamesNoActivations) {
  TooLargeStep step = training(0, 78 * gib);
  step.state = 79 * gib;
  EXPECT_EQ(too_large_step_text(step, advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 79.0 GiB of parameters, gradients and optimizer state, but of 80.0 GiB there "
            "are 78.0 GiB free; hardly one sample fits: use a smaller model, or lower data.size");
}

TEST(TooLargeStep, OfAnEvaluationBlamesNobodyForWhatItsOwnRunHolds) {
  TooLargeStep step = training(50 * gib, 12 * gib);
  EXPECT_NE(too_large_step_text(step, advice).find("nvidia-smi"), std::string::npos);
  step.state = 0;
  EXPECT_EQ(too_large_step_text(step, advice).find("nvidia-smi"), std::string::npos);
}

TEST(TooLargeStep, OfRanksThatShareADeviceIsMeasuredByTheirPart) {
  TooLargeStep step = training(50 * gib, 19 * gib);
  step.ranks = 4;
  // 0.9 * 19 - 2 = 15.1 GiB are left for each. The card alone would do, for one rank.
  EXPECT_EQ(too_large_step_text(step, advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 50.0 GiB of activations and 2.0 GiB of parameters, gradients and optimizer "
            "state, but of 80.0 GiB there are 19.0 GiB free for each of the 4 ranks that share it; "
            "about 302 samples at once fit in each process: lower it");
  step.memory.free = 10 * gib;
  step.activations = 17 * gib;
  EXPECT_NE(too_large_step_text(step, advice).find("nvidia-smi"), std::string::npos)
      << "others have half of the card";
}

TEST(MemoryShare, IsAnEqualPartOfWhatTheDevicesRanksSee) {
  const std::vector<RankPlace> places{{"a", "a", "GPU-0"},
                                      {"a", "a", "GPU-1"},
                                      {"a", "a", "GPU-0"},
                                      {"b", "b", "GPU-2"},
                                      {"a", "a", "GPU-0"}};
  const std::vector<std::int64_t> free{31, 80, 30, 7, 32};
  const auto of = [&](int rank) { return memory_share(RankTopology(places, rank), free); };
  for (const int rank : {0, 2, 4}) {
    EXPECT_EQ(of(rank).ranks, 3);
    EXPECT_EQ(of(rank).bytes, 10U);
  }
  EXPECT_EQ(of(1).ranks, 1);
  EXPECT_EQ(of(1).bytes, 80U);
  EXPECT_EQ(of(3).bytes, 7U);
}

TEST(TooLargeStep, SaysWhereNotOneSampleFits) {
  const char* const hardly =
      " GiB free; hardly one sample fits: use a smaller model, or lower data.size";
  TooLargeStep step = training(100 * gib, 78 * gib);
  step.batch = 1;
  EXPECT_TRUE(too_large_step_text(step, advice).ends_with(hardly));
  step = training(100 * gib, 2 * gib);
  const std::string text = too_large_step_text(step, advice);
  EXPECT_NE(text.find(hardly), std::string::npos) << "the state alone does not fit: " << text;
}

TEST(TooLargeStep, NeverAdvisesWhatDoesNotFit) {
  EXPECT_TRUE(too_large_step_text(training(60 * gib, 78 * gib), advice)
                  .ends_with("; about 999 samples at once fit: lower it"));
}

TEST(TooLargeStep, AdvisesAsManyForEachFoldedRank) {
  TooLargeStep step = training(100 * gib, 78 * gib);
  step.folded_ranks = 4;
  EXPECT_TRUE(too_large_step_text(step).ends_with(
      "; about 680 samples at once fit: lower train.global_batch or data.size, or raise "
      "train.accumulate"));
}

}  // namespace
}  // namespace tandem
