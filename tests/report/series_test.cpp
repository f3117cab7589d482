#include "report/series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

double linear(double x) { return x; }

TEST(Thin, LeavesShortCurvesAlone) {
  EXPECT_TRUE(thin({}, 10, linear).empty());
  EXPECT_EQ(thin({{1, 2}}, 10, linear).size(), 1U);
  EXPECT_EQ(thin(std::vector<Point>(32), 10, linear).size(), 32U);
}

TEST(Thin, KeepsPeaksGapsEndsAndOrder) {
  std::vector<Point> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i * 1e-3)});
  points[41234].y = 100;
  points[71234].y = -100;
  points[51234].y = std::nan("");
  const std::vector<Point> kept = thin(points, 50, linear);
  EXPECT_LE(kept.size(), 152U);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &Point::x));
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 99999);
  const auto at = [&](double x) { return std::ranges::count(kept, x, &Point::x); };
  EXPECT_EQ(at(41234), 1);
  EXPECT_EQ(at(71234), 1);
  EXPECT_EQ(at(51234), 1);
}

// Else its left half would be a few straight lines.
TEST(Thin, KeepsAsManyInEachPartOfALogarithmicAxis) {
  std::vector<Point> points;
  for (int i = 1; i <= 100000; ++i) points.push_back({static_cast<double>(i), std::sin(i)});
  const std::vector<Point> kept = thin(points, 100, [](double x) { return std::log10(x); });
  EXPECT_LE(kept.size(), 302U);
  const auto below = [&](double x) {
    return std::ranges::count_if(kept, [x](const Point& point) { return point.x < x; });
  };
  EXPECT_GE(below(1e3) - below(1e2), 38);  // a fifth of the axis, some two a cell
  EXPECT_GE(below(1e4) - below(1e3), 38);
  EXPECT_GE(below(1e5) - below(1e4), 38);
}

TEST(Thin, TakesPlacesThatAreNoNumbersWithThePointBefore) {
  std::vector<Point> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), 1.0 * i});
  points[500].x = std::nan("");
  EXPECT_LE(thin(points, 10, linear).size(), 32U);
  EXPECT_EQ(thin(std::vector<Point>(1000, Point{3, 4}), 10, linear).size(), 3U) << "no width";
}

}  // namespace
}  // namespace tandem
