#include "train/record/progress_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

ProgressState example() {
  return {.epoch = 3,
          .epochs = 20,
          .step = 117,
          .steps = 468,
          .loss = 0.43214,
          .top1 = 0.84119,
          .images_per_second = 12345.6,
          .eta_seconds = 83.2};
}

TEST(ProgressFormat, WideLineHasEverything) {
  EXPECT_EQ(format_live_progress(example(), 200),
            "epoch 3/20 [#######-----------------------]  25%  step 117/468  loss 0.4321  "
            "top-1 84.12%  12.3k img/s  ETA 1:23");
}

TEST(ProgressFormat, LeavesOutTheLeastImportantFirst) {
  // Worked out by hand from the widths of the texts.
  EXPECT_EQ(format_live_progress(example(), 79),
            "epoch 3/20  25%  step 117/468  loss 0.4321  top-1 84.12%  12.3k img/s  ETA 1:23");
  EXPECT_EQ(format_live_progress(example(), 78),
            "epoch 3/20 [##--------]  25%  loss 0.4321  top-1 84.12%  12.3k img/s  ETA 1:23");
  EXPECT_EQ(format_live_progress(example(), 42), "epoch 3/20  25%  loss 0.4321  top-1 84.12%");
  EXPECT_EQ(format_live_progress(example(), 41), "epoch 3/20 [##--------]  25%  loss 0.4321");
  EXPECT_EQ(format_live_progress(example(), 15), "epoch 3/20  25%");
  EXPECT_EQ(format_live_progress(example(), 5), "epoch");
  EXPECT_EQ(format_live_progress(example(), 0), "");
  EXPECT_EQ(format_live_progress(example(), -1), "");
}

TEST(ProgressFormat, NeverWiderThanTold) {
  ProgressState states[] = {example(), {}, example(), example()};
  states[2].loss = 1e300;
  states[2].images_per_second = 1e18;
  states[2].epoch = states[2].step = std::numeric_limits<std::int64_t>::max();
  states[3].loss = std::nan("");
  states[3].top1 = -INFINITY;
  states[3].images_per_second = INFINITY;
  states[3].eta_seconds = std::nan("");
  for (const ProgressState& state : states) {
    for (int width = 0; width < 200; ++width) {
      const std::string line = format_live_progress(state, width);
      EXPECT_LE(line.size(), static_cast<std::size_t>(width));
      for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
    }
  }
}

TEST(ProgressFormat, OddValues) {
  ProgressState state = example();
  state.eta_seconds = -1;
  EXPECT_NE(format_plain_progress(state).find("ETA -"), std::string::npos);
  state.eta_seconds = 1e30;
  EXPECT_NE(format_plain_progress(state).find("ETA -"), std::string::npos);
  state.eta_seconds = 3723;
  EXPECT_NE(format_plain_progress(state).find("ETA 1:02:03"), std::string::npos);
  state.loss = std::nan("");
  EXPECT_NE(format_plain_progress(state).find("loss nan"), std::string::npos);
  EXPECT_EQ(loss_text(-std::nan("")), "nan");
  EXPECT_EQ(loss_text(9999.99994), "9999.9999");
  EXPECT_EQ(loss_text(4.43801917e32), "4.438e+32");
  state.step = 467;
  EXPECT_NE(format_live_progress(state, 60).find(" 99%"), std::string::npos);
  state.step = 468;
  EXPECT_NE(format_live_progress(state, 60).find("100%"), std::string::npos);
}

TEST(ProgressFormat, OfAPassOverADataSet) {
  const CountState state{.done = 452103, .total = 1281167, .seconds = 883.0};
  EXPECT_EQ(format_plain_progress(state),
            "452,103 of 1,281,167 images checked, 35%  512 img/s  ETA 26:59");
  EXPECT_EQ(format_live_progress(state, 200),
            "checked [##########--------------------]  35%  452,103/1,281,167  512 img/s  "
            "ETA 26:59");
  EXPECT_EQ(format_live_progress(state, 55),
            "checked  35%  452,103/1,281,167  512 img/s  ETA 26:59");
  EXPECT_EQ(format_live_progress(state, 40), "checked  35%  452,103/1,281,167");
  EXPECT_EQ(format_live_progress(state, 5), "check");
  // Nothing is known yet, and nothing is left.
  EXPECT_EQ(format_plain_progress(CountState{.total = 10}),
            "0 of 10 images checked, 0%  - img/s  ETA -");
  EXPECT_EQ(format_plain_progress(CountState{.done = 10, .total = 10, .seconds = 4.0}),
            "10 of 10 images checked, 100%  2.5 img/s  ETA 0:00");
  const CountState evaluated{.what = "evaluated", .done = 50, .total = 100, .seconds = 5.0};
  EXPECT_EQ(format_plain_progress(evaluated),
            "50 of 100 images evaluated, 50%  10 img/s  ETA 0:05");
  EXPECT_EQ(format_live_progress(evaluated, 20), "evaluated  50%");
}

TEST(ProgressFormat, PlainLine) {
  EXPECT_EQ(format_plain_progress(example()),
            "epoch 3/20  step 117/468  loss 0.4321  top-1 84.12%  12.3k img/s  ETA 1:23");
  ProgressState slow = example();
  slow.images_per_second = 3.25;
  EXPECT_NE(format_plain_progress(slow).find("  3.2 img/s"), std::string::npos);
  slow.images_per_second = 9999.4;
  EXPECT_NE(format_plain_progress(slow).find("  9999 img/s"), std::string::npos);
  slow.images_per_second = 2.5e6;
  EXPECT_NE(format_plain_progress(slow).find("  2.50M img/s"), std::string::npos);
}

}  // namespace
}  // namespace tandem
