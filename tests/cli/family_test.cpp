#include "cli/run_folder.h"

// Models of every family through the whole program: a run that goes on from a checkpoint in the
// middle of an epoch is the run that wrote it, to the bit, while dropout and stochastic depth draw.

namespace tandem::cli {
namespace {

struct Family {
  std::string model;
  std::vector<std::string> rates;  ///< of its random layers

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.model; }
};

class FamilyResume : public RunTest, public testing::WithParamInterface<std::tuple<Family, int>> {
 protected:
  /// Small steps: normalisations over four values give gradients that are large.
  std::vector<std::string> options(const std::vector<std::string>& rates) const {
    return set(rates, set({"model.name=" + std::get<0>(GetParam()).model, "data.train_size=50",
                           "data.test_size=8", "data.height=32", "data.width=32", "data.channels=3",
                           "train.epochs=2", "train.max_steps=8", "train.global_batch=8",
                           "schedule.warmup_epochs=0", "optimizer.lr=0.002", "train.eval_every=100",
                           "checkpoint.every_epochs=100", "checkpoint.every_steps=4"}));
  }
};

TEST_P(FamilyResume, InMidEpochIsBitExact) {
  const auto& [family, ranks] = GetParam();
  std::vector<std::string> more = options(family.rates);
  trained("whole", more, ranks);
  const std::map<int, double> whole = train_losses(path("whole"));
  ASSERT_EQ(checkpoint_steps(path("whole")), (std::vector<int>{4, 8})) << "of six steps an epoch";
  more.insert(more.end(), {"--resume", checkpoint("whole", 4).string()});
  trained("resumed", more, ranks);
  const std::map<int, double> resumed = train_losses(path("resumed"));
  ASSERT_EQ(resumed.size(), 4U);
  for (const auto& [step, loss] : resumed) EXPECT_EQ(loss, whole.at(step)) << step;
  expect_same_checkpoint(checkpoint(path("resumed"), 8), checkpoint(path("whole"), 8));
  // The layers do draw.
  std::vector<std::string> still = family.rates;
  for (std::string& rate : still) rate = rate.substr(0, rate.find('=')) + "=0";
  trained("still", set({"train.max_steps=1"}, options(still)), ranks);
  EXPECT_NE(train_losses(path("still")).at(1), whole.at(1));
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, FamilyResume,
    testing::Combine(testing::Values(Family{"shufflenet_v2_x0_5", {"model.dropout=0.3"}},
                                     Family{"mobilenet_v2", {"model.dropout=0.3"}},
                                     Family{"efficientnet_b0",
                                            {"model.dropout=0.3", "model.stochastic_depth=0.3"}}),
                     testing::Values(1, 2)),
    [](const auto& each) {
      return std::get<0>(each.param).model + "_" + std::to_string(std::get<1>(each.param));
    });

}  // namespace
}  // namespace tandem::cli
