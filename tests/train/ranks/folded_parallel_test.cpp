#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model_file.h"
#include "parallel/mpi_test.h"
#include "support/repeats.h"
#include "train/ranks/family_run.h"

// Every model of the zoo on four ranks: as processes, as processes that carry several ranks each,
// and all four in one process. A model of each kind of blocks trains for some steps of eight
// samples a rank, the others, which differ from those in depth and width, for one small step. Each
// rank has normalisations' statistics of its own, so all ways give the same losses, weights and
// statistics within rounding. Dropout and stochastic depth are on: their draws are by the sample's
// place in the global batch.

namespace tandem {
namespace {

/// See difference(). Few samples a rank make variances of the last layers' pixels that are close to
/// zero, which enlarges roundings.
constexpr double tolerance = 1e-3;
constexpr int ranks = 4;

/// Expects four ranks in these processes and four ranks in this process alone to be the same, and
/// one rank with the whole batch to be another thing.
void expect_same(const Family& family, Recipe recipe, int steps = repeats(3)) {
  recipe.synchronised = false;
  recipe.folded = ranks / world().size();
  const FamilyOutcome together = train_on_ranks(family, recipe, steps);
  // What a tool has seen of one process alone would be the same again.
  if (world().size() == 1 && repeats(2) == 1) return;
  const auto alone = [&](int folded) {
    recipe.folded = folded;
    FamilyOutcome outcome;
    if (world().rank() == 0) outcome = train_alone(family, recipe, steps);
    world().barrier();  // a sign of life for the others, who wait only so long
    return outcome;
  };
  const FamilyOutcome folded = alone(ranks);
  const FamilyOutcome one = alone(1);
  if (world().rank() != 0) return;
  ASSERT_EQ(folded.statistics_of_ranks.size(), std::size_t{ranks});
  ASSERT_EQ(together.statistics_of_ranks.size(), std::size_t{ranks});
  EXPECT_NE(folded.statistics_of_ranks[0], folded.statistics_of_ranks[1]);
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

/// Two samples of each rank in a micro-batch: for a tool whose record of a step grows with it
/// beyond a host's memory.
const Recipe small_micro_batches{.accumulate = 2, .mixup = true, .global_batch = 16};

TEST(FoldedRanksWithMicroBatches, AreRanksInResNet) {
  expect_same({"resnet20", false, 2.5F}, mixed_micro_batches);
}
TEST(FoldedRanksWithMicroBatches, AreRanksInShuffleNet) {
  expect_same({"shufflenet_v2_x0_5", false, 2.5F}, mixed_micro_batches);
}
TEST(FoldedRanksWithMicroBatches, AreRanksWithStochasticDepth) {
  expect_same({"efficientnet_b0", true, 1.0F},
              repeats(2) == 1 ? small_micro_batches : mixed_micro_batches);
}

const Family mobilenet{"mobilenet_v2", false, 2.5F, {"features.0", "features.8", "features.9"}};

TEST(PartlyFrozenFoldedRanks, AreRanks) {
  expect_same(mobilenet, {.frozen = true, .global_batch = 32});
}

TEST(SynchronisedFoldedRanks, AreOneRankWithTheWholeBatch) {
  const int steps = repeats(3);
  const FamilyOutcome folded = train_on_ranks(mobilenet, {.folded = 2}, steps);
  if (world().rank() != 0) return;
  const FamilyOutcome one = train_alone(mobilenet, {.synchronised = false}, steps);
  EXPECT_LT(difference(folded, one), tolerance);
}

const std::vector<Family> of_each_kind{{"resnet8", false, 2.5F},
                                       {"resnet20", false, 2.5F},
                                       {"resnet26", false, 2.5F},
                                       {"resnet18", false, 2.5F},
                                       {"shufflenet_v2_x0_5", false, 2.5F},
                                       {"mobilenet_v2", false, 2.5F},
                                       {"efficientnet_b0", true, 1.0F}};

INSTANTIATE_TEST_SUITE_P(Zoo, FoldedRanks, testing::ValuesIn(of_each_kind),
                         [](const auto& each) { return each.param.model; });

/// What the model's layers ask of a test.
Family family_of(const std::string& model) {
  const Graph graph = load_model(find_model(model), {});
  const auto has = [&](std::string_view kind) {
    return std::ranges::any_of(graph.nodes(),
                               [&](const Node& node) { return node.layer->kind() == kind; });
  };
  return {.model = model,
          .stochastic_depth = has("stochastic_depth"),
          .shift = has("silu") ? 1.0F : 2.5F};
}

/// The zoo's models but for those above: from its folder, so that a new one is tested by itself.
std::vector<Family> the_others() {
  std::vector<Family> others;
  for (const std::string& model : zoo_models()) {
    const auto is_this = [&](const Family& family) { return family.model == model; };
    if (std::ranges::none_of(of_each_kind, is_this)) others.push_back(family_of(model));
  }
  return others;
}

class FoldedRanksOfOtherModels : public testing::TestWithParam<Family> {};

/// Of eight samples a rank: of four, roundings of other ways to sum alone have made 9e-3.
TEST_P(FoldedRanksOfOtherModels, AreRanksInASmallStep) {
  expect_same(GetParam(), {.global_batch = 8 * ranks}, 1);
}

INSTANTIATE_TEST_SUITE_P(Zoo, FoldedRanksOfOtherModels, testing::ValuesIn(the_others()),
                         [](const auto& each) { return each.param.model; });

}  // namespace
}  // namespace tandem
