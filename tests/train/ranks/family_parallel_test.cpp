#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "parallel/mpi_test.h"
#include "train/ranks/family_run.h"

// ShuffleNet V2, MobileNetV2 and EfficientNet on k ranks of N samples with synchronised statistics,
// against one rank with all k N, whose kernels know nothing of other ranks. Dropout and, where the
// model has it, stochastic depth are on: their draws are by the sample's place in the global batch.

namespace tandem {
namespace {

/// Of the norm of what training changed; see difference(). Measured: 1.9e-5, of
/// EfficientNet 5.6e-5.
constexpr double tolerance = 2e-4;

class Families : public testing::TestWithParam<Family> {
 protected:
  bool speaks() const { return world().rank() == 0; }
};

TEST_P(Families, SynchronisedRanksAreOneRankWithTheWholeBatch) {
  const FamilyOutcome together = train_on_ranks(GetParam(), {});
  const FamilyOutcome apart = train_on_ranks(GetParam(), {.synchronised = false});
  if (!speaks()) return;
  const FamilyOutcome whole = train_alone(GetParam(), {.synchronised = false});
  const double found = difference(together, whole);
  const double without_random =
      difference(train_alone(GetParam(), {.synchronised = false, .random = false}), whole);
  const double unsynchronised = difference(apart, whole);
  std::printf("%s on %d ranks: differs by %.2e; unsynchronised %.2e, nothing dropped %.2e\n",
              GetParam().model.c_str(), world().size(), found, unsynchronised, without_random);
  EXPECT_LT(found, tolerance);
  // The comparison sees what it is for.
  EXPECT_GT(without_random, 100 * tolerance);
  if (world().size() > 1) {
    EXPECT_GT(unsynchronised, 100 * tolerance);
  }
}

bool is_frozen(const Family& family, const std::string& name) {
  return std::ranges::any_of(family.frozen,
                             [&](const auto& prefix) { return name.starts_with(prefix + "."); });
}

TEST_P(Families, FrozenPartsKeepTheirBitsAndAreInNoBucket) {
  const FamilyOutcome together = train_on_ranks(GetParam(), {.frozen = true});
  if (!speaks()) return;
  int frozen = 0;
  for (const auto& [name, start] : together.start) {
    if (is_frozen(GetParam(), name)) {
      EXPECT_EQ(together.end.at(name), start) << name;
      EXPECT_FALSE(together.reduced.contains(name)) << name;
      ++frozen;
      continue;
    }
    // A bias whose effect the next normalisation takes away has no gradient.
    if (!name.ends_with(".bias")) {
      EXPECT_NE(together.end.at(name), start) << name;
    }
    EXPECT_EQ(together.reduced.contains(name), name.find(".running_") == std::string::npos) << name;
  }
  EXPECT_GT(frozen, 20);
  const FamilyOutcome whole = train_alone(GetParam(), {.synchronised = false, .frozen = true});
  const double found = difference(together, whole);
  std::printf("%s, partly frozen, on %d ranks: differs by %.2e\n", GetParam().model.c_str(),
              world().size(), found);
  // The frozen normalisations' statistics are those of a fresh model, 0 and 1, so that values grow
  // from layer to layer: this is worse conditioned. Measured: 4.2e-4.
  EXPECT_LT(found, 10 * tolerance);
}

/// After one step: from then on the frozen parts matter.
TEST_P(Families, FreezingLeavesTheOtherUpdatesAsTheyAre) {
  if (!speaks()) return;
  const FamilyOutcome all = train_alone(GetParam(), {.synchronised = false}, 1);
  const FamilyOutcome part = train_alone(
      GetParam(), {.synchronised = false, .frozen = true, .frozen_statistics = false}, 1);
  EXPECT_EQ(part.losses, all.losses);
  for (const auto& [name, values] : all.end) {
    const bool moves = name.find(".running_") != std::string::npos || !is_frozen(GetParam(), name);
    EXPECT_EQ(part.end.at(name), moves ? values : all.start.at(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Families,
    testing::Values(Family{"shufflenet_v2_x0_5", false, 2.5F, {"conv1", "stage3"}},
                    Family{"mobilenet_v2", false, 2.5F, {"features.0", "features.8", "features.9"}},
                    Family{"efficientnet_b0", true, 1.0F, {"features.0", "features.4"}}),
    [](const auto& each) { return each.param.model; });

}  // namespace
}  // namespace tandem
