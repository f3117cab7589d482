#include "train/record/step_tally.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

namespace tandem {
namespace {

StepResult step_of(double loss, std::optional<double> norm = {}) {
  return {.steps = 1,
          .sums = {.loss = loss, .samples = 8, .top1 = 2, .top5 = 5},
          .gradient_norm = norm,
          .exposed_seconds = 0.25};
}

class StepTallyTest : public testing::Test {
 protected:
  double waited_ = 3.0;
  StepTally tally_{[this] { return waited_; }};
};

// As a device does: nothing of the first step at first, and what is left all at once.
TEST_F(StepTallyTest, CountsStepsAsTheyAreTold) {
  tally_.begin(40);
  tally_.add({});
  EXPECT_EQ(tally_.step(), 40);
  EXPECT_TRUE(tally_.interval_is_empty());
  tally_.add(step_of(1.0, 0.5));
  EXPECT_EQ(tally_.step(), 41);
  StepResult rest = step_of(2.0, 0.75);
  rest += step_of(4.0);
  tally_.add(rest);
  EXPECT_EQ(tally_.step(), 43);
  const Interval interval = tally_.take_interval();
  EXPECT_EQ(interval.steps, 3);
  EXPECT_EQ(interval.sums.loss, 7.0);
  EXPECT_EQ(interval.sums.samples, 24);
  EXPECT_EQ(interval.exposed_communication_seconds, 0.75);
  EXPECT_EQ(interval.gradient_norm, 0.75);
  EXPECT_EQ(tally_.step(), 43);
  EXPECT_TRUE(tally_.interval_is_empty());
}

TEST_F(StepTallyTest, AnEpochLastsBeyondIntervals) {
  tally_.begin(0);
  tally_.add(step_of(1.0));
  (void)tally_.take_interval();
  tally_.add(step_of(2.0));
  EXPECT_EQ(tally_.epoch_sums().loss, 3.0);
  EXPECT_EQ(tally_.take_interval().sums.loss, 2.0);
  tally_.end_epoch();
  EXPECT_EQ(tally_.epoch_sums().samples, 0);
}

TEST_F(StepTallyTest, WaitsAreTheIntervalsOwn) {
  tally_.begin(0);
  waited_ = 3.5;
  tally_.add(step_of(1.0));
  EXPECT_EQ(tally_.take_interval().data_wait_seconds, 0.5);
  EXPECT_EQ(tally_.take_interval().data_wait_seconds, 0.0);
}

TEST_F(StepTallyTest, PausesAreNoTraining) {
  tally_.begin(0);
  tally_.add(step_of(1.0));
  constexpr double slept = 0.03;
  std::this_thread::sleep_for(std::chrono::duration<double>(slept));
  EXPECT_GE(tally_.training_seconds(), slept);
  EXPECT_GE(tally_.take_interval().seconds, slept);
  std::this_thread::sleep_for(std::chrono::duration<double>(slept));
  const auto paused = std::chrono::steady_clock::now();
  tally_.pause(1000.0);
  const double interval = tally_.take_interval().seconds;
  EXPECT_LE(interval,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - paused).count());
  EXPECT_LT(tally_.training_seconds(), -900.0);
}

}  // namespace
}  // namespace tandem
