#include "report/series.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem {
namespace {

/// Adds the points of [begin, end) that show.
void add_extremes(const std::vector<Point>& points, std::size_t begin, std::size_t end,
                  std::vector<Point>& kept) {
  std::optional<std::size_t> low;
  std::optional<std::size_t> high;
  std::optional<std::size_t> gap;
  for (std::size_t i = begin; i < end; ++i) {
    const double y = points[i].y;
    if (!std::isfinite(y)) {
      gap = i;
      continue;
    }
    if (!low || y < points[*low].y) low = i;
    if (!high || y > points[*high].y) high = i;
  }
  std::vector<std::size_t> indices;
  for (const auto& index : {low, high, gap}) {
    if (index) indices.push_back(*index);
  }
  std::ranges::sort(indices);
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  for (const std::size_t index : indices) kept.push_back(points[index]);
}

/// Of the cells between the first and the last point, in which a place lies. One that is no number
/// goes with the point before.
class Cells {
 public:
  Cells(double first, double last, std::size_t count)
      : first_(first), width_(last - first), count_(static_cast<double>(count)) {}

  double of(double place) {
    const double cell = std::floor(count_ * (place - first_) / width_);
    if (std::isfinite(cell)) last_ = std::clamp(cell, 0.0, count_ - 1.0);
    return last_;
  }

 private:
  double first_;
  double width_;
  double count_;
  double last_ = 0.0;
};

}  // namespace

std::vector<Point> thin(const std::vector<Point>& points, std::size_t cells, const Across& across) {
  // Three points a cell at most; and the two ends.
  if (points.size() <= 3 * cells + 2) return points;
  std::vector<Point> kept{points.front()};
  Cells cell(across(points.front().x), across(points.back().x), cells);
  const std::size_t last = points.size() - 1;
  std::size_t begin = 1;
  double at = cell.of(across(points[begin].x));
  for (std::size_t i = begin + 1; i <= last; ++i) {
    const double next = i < last ? cell.of(across(points[i].x)) : -1.0;
    if (next == at) continue;
    add_extremes(points, begin, i, kept);
    begin = i;
    at = next;
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace tandem
