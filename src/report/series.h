#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tandem {

/// A point of a curve. A y that is not finite is a gap.
struct Point {
  double x = 0.0;
  double y = 0.0;
};

enum class Phase : std::uint8_t { train, evaluation };

/// One curve of a chart.
struct Series {
  std::string name;
  std::size_t run = 0;  ///< which colour
  Phase phase = Phase::train;
  std::vector<Point> points;  ///< x ascends
};

/// Where a value of x lies across a chart: grows with it, in whatever unit.
using Across = std::function<double(double x)>;

/// A curve that looks the same drawn `cells` wide, each as wide as any other: of each cell's points
/// the lowest, the highest and a gap stay, of all points the first and the last.
std::vector<Point> thin(const std::vector<Point>& points, std::size_t cells, const Across& across);

}  // namespace tandem
