#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "report/series.h"

namespace tandem {

/// What a chart says beside its curves. All of it is escaped.
struct ChartText {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool logarithmic_x = false;  ///< where all x are above 0
};

enum class YScale : std::uint8_t {
  fitted,     ///< from the lowest value to the highest
  from_zero,  ///< from 0 to the highest
  automatic,  ///< fitted; logarithmic where values are positive and span a factor of 50
};

/// How many runs have colours of their own; further ones repeat them, dotted.
inline constexpr std::size_t run_colours = 8;

/// The classes of whatever belongs to a run: "run colour0", and "again" from the second round on.
std::string run_classes(std::size_t run);

/// A figure with an inline SVG of the curves: training solid, evaluation dashed with dots. Points
/// without neighbours (a series of one, a value between two gaps) are dots. Where no series has a
/// value it says so.
std::string line_chart(const ChartText& text, std::span<const Series> series, YScale scale);

}  // namespace tandem
