#include "report/ticks.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Ticks, LinearOnesAreRoundAndInside) {
  EXPECT_EQ(linear_axis(0, 100, 5).ticks, (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(linear_axis(-3, 8, 5).ticks, (std::vector<double>{0, 5}));
  EXPECT_EQ(linear_axis(0.001, 0.0042, 4).ticks.size(), 4U);
}

TEST(Ticks, OneValueGetsARangeAroundIt) {
  for (const double value : {0.0, 5.0, -2.0, 1e-9}) {
    const Axis axis = linear_axis(value, value, 5);
    EXPECT_LT(axis.low, value);
    EXPECT_GT(axis.high, value);
    EXPECT_NEAR(axis.place(value), 0.5, 1e-9);
    EXPECT_FALSE(axis.ticks.empty());
  }
  EXPECT_NEAR(logarithmic_axis(3, 3).place(3), 0.5, 1e-9);
}

TEST(Ticks, LogarithmicOnesAreDecades) {
  const Axis axis = logarithmic_axis(1e-4, 10);
  ASSERT_EQ(axis.ticks.size(), 6U);
  EXPECT_NEAR(axis.ticks[1], 1e-3, 1e-15);
  EXPECT_NEAR(axis.place(1e-3), 0.2, 1e-12);
  // Their quotient overflows.
  const Axis wide = logarithmic_axis(1e-300, 1e300);
  EXPECT_GT(wide.ticks.size(), 3U);
  EXPECT_LT(wide.ticks.size(), 20U);
  EXPECT_NEAR(wide.place(1.0), 0.5, 1e-12);
}

TEST(Ticks, NumbersAreShort) {
  EXPECT_EQ(format_short(0), "0");
  EXPECT_EQ(format_short(0.25), "0.25");
  EXPECT_EQ(format_short(9999), "9999");
  EXPECT_EQ(format_short(12000), "12k");
  EXPECT_EQ(format_short(-3.4e6), "-3.4M");
  EXPECT_EQ(format_short(1e-5), "1e-05");
}

}  // namespace
}  // namespace tandem
