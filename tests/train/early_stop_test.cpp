#include "train/early_stop.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/config_table.h"
#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

/// The evaluation (from 1) after which a run ends; 0: it does not.
int stops_after(const EarlyStopConfig& config, const std::vector<double>& values) {
  EarlyStop stop(config);
  for (std::size_t i = 0; i < values.size(); ++i) {
    stop.watch({.loss = values[i], .top1 = values[i], .top5 = values[i]},
               static_cast<std::int64_t>(10 * (i + 1)));
    if (stop.due()) return static_cast<int>(i + 1);
  }
  return 0;
}

TEST(EarlyStop, WaitsForSoManyEvaluationsWithoutAnImprovement) {
  EXPECT_EQ(stops_after({.patience = 2}, {0.5, 0.6, 0.6, 0.55, 0.7}), 4);
  EXPECT_EQ(stops_after({.patience = 2}, {0.5, 0.4, 0.6, 0.5, 0.7}), 0);
  EXPECT_EQ(stops_after({.patience = 1}, {0.5, 0.5}), 2);
  EXPECT_EQ(stops_after({.patience = 0}, {0.5, 0.4, 0.3}), 0);
  EXPECT_EQ(stops_after({.metric = "loss", .patience = 1}, {0.5, 0.4, 0.3, 0.35}), 4);
  EXPECT_EQ(stops_after({.metric = "top5", .patience = 1}, {0.5, 0.4, 0.9}), 2);
}

TEST(EarlyStop, AnImprovementIsByMoreThanTheDelta) {
  // Steps too small, one by one, still add up against the best.
  EXPECT_EQ(stops_after({.patience = 2, .min_delta = 0.25}, {1.0, 1.125, 1.25, 2.0}), 3);
  EXPECT_EQ(stops_after({.patience = 3, .min_delta = 0.25}, {1.0, 1.125, 1.25, 1.375, 1.5}), 0);
  EXPECT_EQ(stops_after({.metric = "loss", .patience = 1, .min_delta = 0.25}, {2.0, 1.5, 1.25}), 3);
}

TEST(EarlyStop, ALossThatIsNoNumberIsNoImprovementAndNoBest) {
  EXPECT_EQ(stops_after({.metric = "loss", .patience = 2}, {1.0, NAN, NAN}), 3);
  EXPECT_EQ(stops_after({.metric = "loss", .patience = 2}, {NAN, 1.0, 0.9, 0.8}), 0);
}

// As outputs that are not finite hit by chance.
TEST(EarlyStop, WhatALossThatIsNotFiniteHitsIsNoImprovement) {
  EarlyStop stop({.patience = 2});
  stop.watch({.loss = NAN, .top1 = 0.9}, 10);
  stop.watch({.loss = 1.0, .top1 = 0.5}, 20);
  stop.watch({.loss = INFINITY, .top1 = 0.8}, 30);
  EXPECT_FALSE(stop.due());
  EXPECT_EQ(stop.state(), (EarlyStopState{.best = 0.5, .best_step = 20, .waited = 1}));
  EarlyStop never({.patience = 2});
  for (const std::int64_t step : {10, 20}) never.watch({.loss = NAN, .top1 = 0.9}, step);
  EXPECT_TRUE(never.due());
  EXPECT_EQ(never.reason(), "no loss was finite in 2 evaluations");
}

TEST(EarlyStop, GoesOnFromItsStateAndSaysWhy) {
  EarlyStop first({.patience = 3, .min_delta = 0.01});
  for (const double top1 : {0.5, 0.9, 0.8}) first.watch({.top1 = top1}, 1200);
  EarlyStop second({.patience = 3, .min_delta = 0.01});
  second.restore(first.state());
  second.watch({.top1 = 0.9}, 1300);
  EXPECT_FALSE(second.due());
  second.watch({.top1 = 0.9}, 1400);
  EXPECT_TRUE(second.due());
  EXPECT_EQ(second.reason(),
            "top1 has not risen by more than 0.01 above 0.9000 (step 1200) in 3 evaluations");
  EarlyStop loss({.metric = "loss", .patience = 1});
  loss.watch({.loss = 1.5}, 7);
  loss.watch({.loss = 1.5}, 14);
  EXPECT_EQ(loss.reason(), "loss has not fallen below 1.5000 (step 7) in 1 evaluation");
}

TEST(EarlyStop, ReadsItsKeys) {
  const auto read = [](const char* text) {
    return EarlyStopConfig::read(ConfigTable::from_text(text, "run.toml").table("train"));
  };
  EXPECT_EQ(read("").patience, 0);
  const EarlyStopConfig config = read(
      "[train]\nearly_stop_metric = 'loss'\nearly_stop_patience = 4\nearly_stop_min_delta = 0.5\n");
  EXPECT_EQ(config.metric, "loss");
  EXPECT_EQ(config.patience, 4);
  EXPECT_EQ(config.min_delta, 0.5);
  EXPECT_EQ(message_of<InputError>([&] { read("[train]\nearly_stop_metric = 'top2'\n"); }),
            "run.toml:2: train.early_stop_metric: 'top2' is not one of top1, top5, loss (did you "
            "mean 'top1'?)");
}

}  // namespace
}  // namespace tandem
