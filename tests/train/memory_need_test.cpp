#include "train/step/memory_need.h"

#include <gtest/gtest.h>

#include "train/step/memory_share.h"

namespace tandem {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30U;
constexpr const char* advice = "lower it";

MemoryNeed training(std::size_t activations, std::size_t free) {
  return {.what = "a training step",
          .batch = 1000,
          .state = 2 * gib,
          .activations = activations,
          .memory = {.device = "NVIDIA X", .total = 80 * gib, .free = free}};
}

TEST(MemoryNeed, SaysWhatIsNeededWhatIsThereAndWhatFits) {
  // 0.9 * 78 - 2 = 68.2 GiB are left for 100 of a thousand samples.
  EXPECT_EQ(out_of_memory_text(training(100 * gib, 78 * gib), advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 100.0 GiB of activations and 2.0 GiB of parameters, gradients and optimizer "
            "state, but of 80.0 GiB there are 78.0 GiB free; about 682 samples fit: lower it");
}

TEST(MemoryNeed, PointsToOthersWhereTheCardWouldDo) {
  EXPECT_EQ(out_of_memory_text(training(50 * gib, 12 * gib), advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 50.0 GiB of activations and 2.0 GiB of parameters, gradients and optimizer "
            "state, but of 80.0 GiB there are 12.0 GiB free (nvidia-smi shows who has the rest); "
            "about 176 samples fit: lower it");
  // The card alone would not do either.
  EXPECT_EQ(out_of_memory_text(training(100 * gib, 12 * gib), advice).find("nvidia-smi"),
            std::string::npos);
}

TEST(MemoryNeed, OfAnEvaluationIsWithoutState) {
  MemoryNeed need = training(100 * gib, 78 * gib);
  need.what = "an evaluation step";
  need.state = 0;
  EXPECT_EQ(out_of_memory_text(need, advice),
            "an evaluation step of 1000 samples at once does not fit the memory of NVIDIA X: it "
            "needs at least 100.0 GiB of activations, but of 80.0 GiB there are 78.0 GiB free; "
            "about 702 samples fit: lower it");
}

TEST(MemoryNeed, OfAStateThatIsTooLargeByItselfNamesNoActivations) {
  MemoryNeed need = training(0, 78 * gib);
  need.state = 79 * gib;
  EXPECT_EQ(out_of_memory_text(need, advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 79.0 GiB of parameters, gradients and optimizer state, but of 80.0 GiB there "
            "are 78.0 GiB free; use a smaller model or smaller images");
}

TEST(MemoryNeed, OfAnEvaluationBlamesNobodyForWhatItsOwnRunHolds) {
  MemoryNeed need = training(50 * gib, 12 * gib);
  EXPECT_NE(out_of_memory_text(need, advice).find("nvidia-smi"), std::string::npos);
  need.state = 0;
  EXPECT_EQ(out_of_memory_text(need, advice).find("nvidia-smi"), std::string::npos);
}

TEST(MemoryNeed, OfRanksThatShareADeviceIsMeasuredByTheirPart) {
  MemoryNeed need = training(50 * gib, 19 * gib);
  need.ranks = 4;
  // 0.9 * 19 - 2 = 15.1 GiB are left for each. The card alone would do, for one rank.
  EXPECT_EQ(out_of_memory_text(need, advice),
            "a training step of 1000 samples at once does not fit the memory of NVIDIA X: it needs "
            "at least 50.0 GiB of activations and 2.0 GiB of parameters, gradients and optimizer "
            "state, but of 80.0 GiB there are 19.0 GiB free for each of the 4 ranks that share it; "
            "about 302 samples fit: lower it");
  need.memory.free = 10 * gib;
  need.activations = 17 * gib;
  EXPECT_NE(out_of_memory_text(need, advice).find("nvidia-smi"), std::string::npos)
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

TEST(MemoryNeed, SaysWhereNotOneSampleFits) {
  MemoryNeed need = training(100 * gib, 78 * gib);
  need.batch = 1;
  EXPECT_EQ(fitting_batch(need), 0);
  const std::string text = out_of_memory_text(need, advice);
  EXPECT_NE(text.find("78.0 GiB free; use a smaller model or smaller images"), std::string::npos)
      << text;
  need = training(100 * gib, 2 * gib);
  EXPECT_EQ(fitting_batch(need), 0) << "the state alone does not fit";
}

TEST(MemoryNeed, NeverAdvisesWhatDoesNotFit) {
  EXPECT_EQ(fitting_batch(training(60 * gib, 78 * gib)), 999);
}

}  // namespace
}  // namespace tandem
