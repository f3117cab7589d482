#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "parallel/mpi_test.h"
#include "train/family_run.h"

// A model of each kind of the zoo's blocks on four ranks of eight samples: as processes, as
// processes that carry several ranks each, and all four in one process. Each rank has
// normalisations' statistics of its own, so all ways give the same losses, weights and statistics
// within rounding. Dropout and stochastic depth are on: their draws are by the sample's place in
// the global batch.

namespace tandem {
namespace {

/// See difference(). Few samples a rank make variances of the last layers' pixels that are close to
/// zero, which enlarges roundings.
constexpr double tolerance = 1e-3;
constexpr int ranks = 4;

/// Expects four ranks in these processes and four ranks in this process alone to be the same, and
/// one rank with the whole batch to be another thing.
void expect_same(const Family& family, Recipe recipe) {
  recipe.synchronised = false;
  recipe.folded = ranks / world().size();
  const FamilyOutcome together = train_family(family, recipe, world());
  if (world().rank() != 0) return;
  recipe.folded = ranks;
  const FamilyOutcome folded = train_family_alone(family, recipe);
  recipe.folded = 1;
  const FamilyOutcome one = train_family_alone(family, recipe);
  const double found = difference(folded, together);
  const double other = difference(one, together);
  std::printf("%s: four ranks in one process and in %d differ by %.2e; from one rank by %.2e\n",
              family.model.c_str(), world().size(), found, other);
  EXPECT_LT(found, tolerance);
  EXPECT_LT(20.0 * found, other);
}

class FoldedRanks : public testing::TestWithParam<Family> {};

TEST_P(FoldedRanks, AreRanks) { expect_same(GetParam(), {.global_batch = 32}); }

/// Each micro-batch is spread over all ranks.
const Recipe mixed_micro_batches{.accumulate = 2, .mixup = true, .global_batch = 64};

TEST(FoldedRanksWithMicroBatches, AreRanksInResNet) {
  expect_same({"resnet20", false, 2.5F}, mixed_micro_batches);
}
TEST(FoldedRanksWithMicroBatches, AreRanksInShuffleNet) {
  expect_same({"shufflenet_v2_x0_5", false, 2.5F}, mixed_micro_batches);
}
TEST(FoldedRanksWithMicroBatches, AreRanksWithStochasticDepth) {
  expect_same({"efficientnet_b0", true, 1.0F}, mixed_micro_batches);
}

const Family mobilenet{"mobilenet_v2", false, 2.5F, {"features.0", "features.8", "features.9"}};

TEST(PartlyFrozenFoldedRanks, AreRanks) {
  expect_same(mobilenet, {.frozen = true, .global_batch = 32});
}

TEST(SynchronisedFoldedRanks, AreOneRankWithTheWholeBatch) {
  const FamilyOutcome folded = train_family(mobilenet, {.folded = 2}, world());
  if (world().rank() != 0) return;
  const FamilyOutcome one = train_family_alone(mobilenet, {.synchronised = false});
  EXPECT_LT(difference(folded, one), tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, FoldedRanks,
    testing::Values(Family{"resnet8", false, 2.5F}, Family{"resnet20", false, 2.5F},
                    Family{"resnet26", false, 2.5F}, Family{"resnet18", false, 2.5F},
                    Family{"shufflenet_v2_x0_5", false, 2.5F}, Family{"mobilenet_v2", false, 2.5F},
                    Family{"efficientnet_b0", true, 1.0F}),
    [](const auto& each) { return each.param.model; });

}  // namespace
}  // namespace tandem
