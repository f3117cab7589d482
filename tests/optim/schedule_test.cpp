#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/config_table.h"
#include "base/error.h"
#include "optim/schedule_config.h"
#include "support/message.h"

namespace tandem {
namespace {

constexpr double pi = 3.14159265358979323846;

TEST(Schedule, ConstantWarmsUpInAStraightLine) {
  const Schedule schedule = ConstantSchedule{.warmup_epochs = 0.75};
  const Horizon horizon{.steps_per_epoch = 4, .total_steps = 12};
  const std::vector<double> expected{0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule, horizon, 2.0, static_cast<std::int64_t>(step)),
                     2.0 * expected[step])
        << step;
  }
}

TEST(Schedule, StepDecaysAtItsMilestones) {
  const Schedule schedule = StepSchedule{.milestones = {1.0, 2.5}, .gamma = 0.5};
  const Horizon horizon{.steps_per_epoch = 10, .total_steps = 40};
  const auto at = [&](std::int64_t step) { return learning_rate_at(schedule, horizon, 1.0, step); };
  EXPECT_DOUBLE_EQ(at(0), 1.0);
  EXPECT_DOUBLE_EQ(at(9), 1.0);
  EXPECT_DOUBLE_EQ(at(10), 0.5);
  EXPECT_DOUBLE_EQ(at(24), 0.5);
  EXPECT_DOUBLE_EQ(at(25), 0.25);
  EXPECT_DOUBLE_EQ(at(39), 0.25);
  EXPECT_DOUBLE_EQ(at(1000), 0.25) << "past the end: the last step's rate";
}

TEST(Schedule, StepWarmsUpWhateverTheMilestones) {
  const Schedule schedule = StepSchedule{.warmup_epochs = 1.0, .milestones = {0.5}, .gamma = 0.5};
  const Horizon horizon{.steps_per_epoch = 4, .total_steps = 12};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, horizon, 1.0, 1), 2.0 / 5.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, horizon, 1.0, 2), 0.5 * 3.0 / 5.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, horizon, 1.0, 4), 0.5);
}

/// CosineAnnealingLR's closed form, over the steps after the warm-up.
TEST(Schedule, CosineFallsToItsMinimum) {
  const double base = 0.4;
  const double low = 0.01;
  const Horizon horizon{.steps_per_epoch = 5, .total_steps = 50};
  for (const std::int64_t warmup : {0, 5, 13}) {
    const Schedule schedule =
        CosineSchedule{.warmup_epochs = static_cast<double>(warmup) / 5.0, .lr_min = low};
    for (std::int64_t step = 0; step < 50; ++step) {
      const double expected =
          step < warmup ? base * static_cast<double>(step + 1) / static_cast<double>(warmup + 1)
                        : low + 0.5 * (base - low) *
                                    (1.0 + std::cos(pi * static_cast<double>(step - warmup) /
                                                    static_cast<double>(50 - warmup)));
      EXPECT_NEAR(learning_rate_at(schedule, horizon, base, step), expected, 1e-12) << step;
    }
  }
}

/// OneCycleLR stepped phase by phase as its documentation and source describe it.
double torch_one_cycle(const OneCycleSchedule& s, double max_lr, std::int64_t total,
                       std::int64_t step) {
  const double initial = max_lr / s.div_factor;
  const double minimum = initial / s.final_div_factor;
  struct Phase {
    double end_step, start_lr, end_lr;
  };
  const Phase phases[2] = {{s.pct_start * static_cast<double>(total) - 1.0, initial, max_lr},
                           {static_cast<double>(total) - 1.0, max_lr, minimum}};
  double start_step = 0.0;
  for (int i = 0; i < 2; ++i) {
    const auto now = static_cast<double>(step);
    if (now <= phases[i].end_step || i == 1) {
      const double pct = (now - start_step) / (phases[i].end_step - start_step);
      const double cos_out = std::cos(pi * pct) + 1.0;
      return phases[i].end_lr + (phases[i].start_lr - phases[i].end_lr) / 2.0 * cos_out;
    }
    start_step = phases[i].end_step;
  }
  return NAN;
}

TEST(Schedule, OneCycleIsTorchs) {
  for (const OneCycleSchedule& cycle :
       {OneCycleSchedule{},
        OneCycleSchedule{.div_factor = 10, .final_div_factor = 100, .pct_start = 0.25},
        OneCycleSchedule{.pct_start = 0.0}}) {
    for (const std::int64_t total : {7, 100, 333}) {
      const Horizon horizon{.steps_per_epoch = 7, .total_steps = total};
      for (std::int64_t step = 0; step < total; ++step) {
        EXPECT_NEAR(learning_rate_at(cycle, horizon, 0.8, step),
                    torch_one_cycle(cycle, 0.8, total, step), 1e-12)
            << total << " " << step;
      }
    }
  }
}

TEST(Schedule, OneCycleReachesItsLandmarks) {
  const Schedule cycle =
      OneCycleSchedule{.div_factor = 10, .final_div_factor = 100, .pct_start = 0.2};
  const Horizon horizon{.steps_per_epoch = 10, .total_steps = 50};
  EXPECT_NEAR(learning_rate_at(cycle, horizon, 1.0, 0), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate_at(cycle, horizon, 1.0, 9), 1.0, 1e-12);
  EXPECT_NEAR(learning_rate_at(cycle, horizon, 1.0, 49), 0.001, 1e-12);
  // Where the peak would divide by zero, it is the first step.
  EXPECT_EQ(learning_rate_at(OneCycleSchedule{.pct_start = 1.0}, {1, 1}, 1.0, 0), 1.0);
  EXPECT_EQ(learning_rate_at(OneCycleSchedule{.pct_start = 0.5}, {1, 2}, 1.0, 0), 1.0);
}

TEST(Schedule, RejectsNonsense) {
  EXPECT_THROW(learning_rate_at(ConstantSchedule{}, {1, 1}, 1.0, -1), Error);
  EXPECT_THROW(learning_rate_at(ConstantSchedule{}, {0, 1}, 1.0, 0), Error);
}

Schedule read(std::string_view text) {
  const ConfigTable root = ConfigTable::from_text(text, "run.toml");
  Schedule schedule = read_schedule_config(root.table("schedule"), 0.5, 10);
  root.finish();
  return schedule;
}

std::string rejected(std::string_view text) {
  return message_of<InputError>([&] { read(text); });
}

TEST(ScheduleConfig, ReadsEveryKind) {
  EXPECT_EQ(std::get<ConstantSchedule>(read("")).warmup_epochs, 0.0);
  EXPECT_EQ(std::get<ConstantSchedule>(read("[schedule]\nwarmup_epochs = 1.5\n")).warmup_epochs,
            1.5);
  const auto step = std::get<StepSchedule>(
      read("[schedule]\nkind = 'step'\nmilestones = [3, 6.5]\ngamma = 0.2\nwarmup_epochs = 1\n"));
  EXPECT_EQ(step.milestones, (std::vector<double>{3.0, 6.5}));
  EXPECT_EQ(step.gamma, 0.2);
  EXPECT_EQ(step.warmup_epochs, 1.0);
  const auto cosine = std::get<CosineSchedule>(
      read("[schedule]\nkind = 'cosine'\nlr_min = 0.5\nwarmup_epochs = 2\n"));
  EXPECT_EQ(cosine.lr_min, 0.5);
  EXPECT_EQ(cosine.warmup_epochs, 2.0);
  const auto cycle = std::get<OneCycleSchedule>(read(
      "[schedule]\nkind = 'one-cycle'\ndiv_factor = 5\nfinal_div_factor = 50\npct_start = 0.4\n"));
  EXPECT_EQ(cycle.div_factor, 5.0);
  EXPECT_EQ(cycle.final_div_factor, 50.0);
  EXPECT_EQ(cycle.pct_start, 0.4);
}

TEST(ScheduleConfig, NamesWhatIsWrong) {
  EXPECT_EQ(
      rejected("[schedule]\nkind = 'cosin'\n"),
      "run.toml:2: schedule.kind: 'cosin' is not one of constant, step, cosine, one-cycle (did "
      "you mean 'cosine'?)");
  EXPECT_EQ(rejected("[schedule]\nkind = 'one-cycle'\nwarmup_epochs = 1\n"),
            "run.toml:3: schedule.warmup_epochs: unknown key; known here: div_factor, "
            "final_div_factor, kind, pct_start");
  EXPECT_EQ(
      rejected("[schedule]\nkind = 'step'\n"),
      "run.toml:1: schedule.milestones: missing; expected the epochs of the steps, as [30, 60]");
  EXPECT_EQ(
      rejected("[schedule]\nkind = 'step'\nmilestones = [3, 3]\n"),
      "run.toml:3: schedule.milestones: 3 does not follow 3; expected ascending epochs above 0, at "
      "most 1000000");
  EXPECT_EQ(
      rejected("[schedule]\nwarmup_epochs = 10\n"),
      "run.toml:2: schedule.warmup_epochs: 10 leaves nothing of a run of 10 epochs; shorten it");
  EXPECT_EQ(rejected("[schedule]\nkind = 'cosine'\nlr_min = 0.6\n"),
            "run.toml:3: schedule.lr_min: 0.6 is out of range; expected 0 to 0.5");
}

}  // namespace
}  // namespace tandem
