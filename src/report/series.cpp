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

}  // namespace

std::vector<Point> thin(const std::vector<Point>& points, std::size_t cells) {
  // Three points a cell at most; and the two ends.
  if (points.size() <= 3 * cells + 2) return points;
  std::vector<Point> kept{points.front()};
  const std::size_t inner = points.size() - 2;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    add_extremes(points, 1 + inner * cell / cells, 1 + inner * (cell + 1) / cells, kept);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace tandem
