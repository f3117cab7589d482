#include "report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/html.h"
#include "report/ticks.h"

namespace tandem {
namespace {

// The drawing, in units of the SVG's view box.
constexpr double width = 640;
constexpr double height = 300;
constexpr double left = 56;
constexpr double right = 612;
constexpr double top = 12;
constexpr double bottom = 256;
constexpr std::size_t cells = 278;  // half the width of the plot
constexpr std::size_t most_dots = 60;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool empty() const { return low > high; }
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

struct Axes {
  Axis x;
  Axis y;
  double x_of(const Point& point) const { return left + (right - left) * x.place(point.x); }
  double y_of(const Point& point) const { return bottom - (bottom - top) * y.place(point.y); }
};

bool drawable(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

Axis y_axis(const Range& range, YScale scale) {
  if (scale == YScale::automatic && range.low > 0 && range.high / range.low >= 50) {
    return logarithmic_axis(range.low, range.high);
  }
  if (scale == YScale::from_zero) return linear_axis(0, range.high > 0 ? range.high * 1.05 : 1, 5);
  // Some air, so that no curve lies on the frame.
  const double air = 0.04 * (range.high - range.low);
  return linear_axis(range.low - air, range.high + air, 5);
}

std::string frame(const Axes& axes, const ChartText& text) {
  std::string svg;
  for (const double tick : axes.y.ticks) {
    const double y = axes.y_of({axes.x.low, tick});
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        left, right, y, left - 6, y + 4, format_short(tick));
  }
  for (const double tick : axes.x.ticks) {
    const double x = axes.x_of({tick, axes.y.low});
    svg += fmt::format(
        "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        x, bottom, bottom + 4, bottom + 18, format_short(tick));
  }
  svg += fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>\n", left,
                     right, bottom);
  svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (left + right) / 2, height - 8, escape_html(text.x_label));
  return svg;
}

/// The curve's path, and dots where they are wanted or where a line would not show.
std::string curve(const Series& series, const Axes& axes) {
  const std::vector<Point> points =
      thin(series.points, cells, [&](double x) { return axes.x.place(x); });
  const bool evaluation = series.phase == Phase::evaluation;
  std::string path;
  std::string dots;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!drawable(points[i])) continue;
    const bool joined = i > 0 && drawable(points[i - 1]);
    const bool goes_on = i + 1 < points.size() && drawable(points[i + 1]);
    const std::string at = fmt::format("{:.1f} {:.1f}", axes.x_of(points[i]), axes.y_of(points[i]));
    path += (joined ? "L" : "M") + at;
    if ((joined || goes_on) && !(evaluation && points.size() <= most_dots)) continue;
    dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3"/>)", axes.x_of(points[i]),
                        axes.y_of(points[i]));
  }
  return fmt::format("<g class=\"{} {}\" data-run=\"{}\" data-name=\"{}\"><path d=\"{}\"/>{}</g>\n",
                     run_classes(series.run), evaluation ? "evaluation" : "train", series.run,
                     escape_html(series.name), path, dots);
}

}  // namespace

std::string run_classes(std::size_t run) {
  return fmt::format("run colour{}{}", run % run_colours, run >= run_colours ? " again" : "");
}

std::string line_chart(const ChartText& text, std::span<const Series> series, YScale scale) {
  Range x;
  Range y;
  for (const Series& each : series) {
    for (const Point& point : each.points) {
      if (!drawable(point)) continue;
      x.include(point.x);
      y.include(point.y);
    }
  }
  const std::string title = escape_html(text.title);
  std::string html = fmt::format("<figure class=\"chart\"><figcaption>{} <small>{}</small>", title,
                                 escape_html(text.y_label));
  if (x.empty()) return html + "</figcaption><p class=\"none\">No values recorded.</p></figure>\n";
  const Axis across = text.logarithmic_x && x.low > 0
                          ? logarithmic_axis(x.low, x.high)
                          : linear_axis(std::min(x.low, 0.0), x.high, 8);
  const Axes axes{across, y_axis(y, scale)};
  if (axes.y.logarithmic) html += " <small>logarithmic</small>";
  html += fmt::format(
      "</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" data-x=\"{} {} {} "
      "{}\" data-y=\"{} {} {} {}\"{}{} data-x-label=\"{}\">\n",
      width, height, title, left, right, axes.x.low, axes.x.high, bottom, top, axes.y.low,
      axes.y.high, axes.x.logarithmic ? " data-log-x" : "", axes.y.logarithmic ? " data-log-y" : "",
      escape_html(text.x_label));
  html += frame(axes, text);
  for (const Series& each : series) html += curve(each, axes);
  return html + "<line class=\"cursor\"/></svg></figure>\n";
}

}  // namespace tandem
