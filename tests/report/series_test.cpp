#include "report/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

TEST(Thin, LeavesShortCurvesAlone) {
  EXPECT_TRUE(thin({}, 10).empty());
  EXPECT_EQ(thin({{1, 2}}, 10).size(), 1U);
  EXPECT_EQ(thin(std::vector<Point>(32), 10).size(), 32U);
}

TEST(Thin, KeepsPeaksGapsEndsAndOrder) {
  std::vector<Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 1e-3)});
  points[41234].y = 100;
  points[71234].y = -100;
  points[51234].y = std::nan("");
  const std::vector<Point> kept = thin(points, 50);
  EXPECT_LE(kept.size(), 152U);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::x));
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 99999);
  const auto at = [&](double x) { return std::ranges::count(kept, x, &Point::x); };
  EXPECT_EQ(at(41234), 1);
  EXPECT_EQ(at(71234), 1);
  EXPECT_EQ(at(51234), 1);
}

}  // namespace
}  // namespace tandem
