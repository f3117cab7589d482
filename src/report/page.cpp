#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "report/html.h"
#include "report/line_chart.h"
#include "report/page_style.h"
#include "report/tables.h"

namespace tandem {
namespace {

using Runs = std::span<const RunHistory>;

/// What a chart shows of each kind of record; null: nothing.
struct Curves {
  enum class Shown : std::uint8_t { always, where_recorded };
  const char* title;
  const char* y_label;
  YScale scale;
  double TrainRecord::*train;
  double EvaluationRecord::*evaluation;
  double factor;
  double BadSamplesRecord::*bad_samples = nullptr;
  Shown shown = Shown::always;
};

constexpr Curves charts[] = {
    {"Loss", "nats; training solid, test dashed", YScale::automatic, &TrainRecord::loss,
     &EvaluationRecord::loss, 1.0},
    {"Top-1 accuracy", "%; training solid, test dashed", YScale::fitted, &TrainRecord::top1,
     &EvaluationRecord::top1, 100.0},
    {"Throughput", "images/s over all ranks", YScale::from_zero, &TrainRecord::images_per_second,
     nullptr, 1.0},
    {"Learning rate", "", YScale::from_zero, &TrainRecord::learning_rate, nullptr, 1.0},
    {"Top-5 accuracy", "%, test", YScale::fitted, nullptr, &EvaluationRecord::top5, 100.0},
    {"Gradient norm", "before clipping, of the last step of each interval", YScale::automatic,
     &TrainRecord::gradient_norm, nullptr, 1.0, nullptr, Curves::Shown::where_recorded},
    {"Multiprocessors at work", "%, mean over the GPUs", YScale::from_zero,
     &TrainRecord::sm_activity, nullptr, 100.0, nullptr, Curves::Shown::where_recorded},
    {"Tensor pipes at work", "%, mean over the GPUs", YScale::from_zero,
     &TrainRecord::tensor_activity, nullptr, 100.0, nullptr, Curves::Shown::where_recorded},
    {"Memory bandwidth used", "%, mean over the GPUs", YScale::from_zero,
     &TrainRecord::dram_activity, nullptr, 100.0, nullptr, Curves::Shown::where_recorded},
    {"Power", "W, of all GPUs", YScale::from_zero, &TrainRecord::watts, nullptr, 1.0, nullptr,
     Curves::Shown::where_recorded},
    {"Skipped samples", "times so far that a sample could not be read", YScale::from_zero, nullptr,
     nullptr, 1.0, &BadSamplesRecord::skipped, Curves::Shown::where_recorded},
};

enum class XAxis : std::uint8_t { step, log_step, time };

constexpr const char* class_of(XAxis x) {
  switch (x) {
    case XAxis::step:
      return "by-step";
    case XAxis::log_step:
      return "by-log-step";
    case XAxis::time:
      break;
  }
  return "by-time";
}

template <typename Record>
std::vector<Point> points_of(const std::vector<Record>& records, double Record::*value,
                             double factor, XAxis x) {
  std::vector<Point> points;
  points.reserve(records.size());
  for (const Record& record : records) {
    points.push_back({x == XAxis::time ? record.elapsed : static_cast<double>(record.step),
                      factor * record.*value});
  }
  return points;
}

/// The curves of one run.
std::vector<Series> series_of(const RunHistory& run, std::size_t index, const Curves& curves,
                              XAxis x) {
  std::vector<Series> series;
  const auto add = [&](const auto& records, auto value, Phase phase, const char* suffix) {
    if (value == nullptr) return;
    series.push_back({.name = run.name + suffix,
                      .run = index,
                      .phase = phase,
                      .points = points_of(records, value, curves.factor, x)});
  };
  add(run.train, curves.train, Phase::train, "");
  add(run.evaluations, curves.evaluation, Phase::evaluation, ", test");
  add(run.bad_samples, curves.bad_samples, Phase::train, "");
  return series;
}

/// Records that have no value are no gaps of such a curve: it is not recorded each time.
void keep_recorded(Series& series) {
  std::erase_if(series.points, [](const Point& point) { return !std::isfinite(point.y); });
}

std::string chart(Runs runs, const Curves& curves, XAxis x) {
  std::vector<Series> series;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::ranges::move(series_of(runs[i], i, curves, x), std::back_inserter(series));
  }
  if (curves.shown == Curves::Shown::where_recorded) {
    std::ranges::for_each(series, keep_recorded);
    if (std::ranges::all_of(series, [](const Series& each) { return each.points.empty(); })) {
      return "";
    }
  }
  return line_chart({.title = curves.title,
                     .x_label = x == XAxis::time ? "seconds" : "step",
                     .y_label = curves.y_label,
                     .logarithmic_x = x == XAxis::log_step},
                    series, curves.scale);
}

std::string legend(Runs runs) {
  std::string html = R"(<nav class="legend" aria-label="Runs">)";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format(
        R"(<label><input type="checkbox" value="{}" checked autocomplete="off"> {}</label>)", i,
        run_label(runs[i], i));
  }
  return html + "</nav>\n";
}

std::string all_charts(Runs runs, XAxis x) {
  std::string html = fmt::format("<div class=\"charts {}\">\n", class_of(x));
  for (const Curves& curves : charts) html += chart(runs, curves, x);
  return html + "</div>\n";
}

std::string notes(Runs runs) {
  std::string html;
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) {
      html += fmt::format("<p class=\"note\">{}</p>\n", escape_html(note));
    }
  }
  return html;
}

/// What a person should know of a run beside its numbers.
std::string remarks(Runs runs) {
  std::string html;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunHistory& run = runs[i];
    std::vector<std::string> remarks;
    if (run.end && run.end->ending != "finished") {
      remarks.push_back(fmt::format("{} at step {}: {}",
                                    run.end->ending == "early_stop" ? "ended early" : "was stopped",
                                    format_count(run.end->step), escape_html(run.end->reason)));
    }
    if (!run.bad_samples.empty()) {
      const BadSamplesRecord& last = run.bad_samples.back();
      remarks.push_back(fmt::format(
          "skipped samples that could not be read {:.0f} times ({:.0f} samples, listed in its "
          "bad_samples.txt)",
          last.skipped, last.distinct));
    }
    for (const std::string& remark : remarks) {
      html += fmt::format("<p class=\"remark\">{} {}</p>\n", run_label(run, i), remark);
    }
  }
  return html;
}

std::string title_of(Runs runs) {
  return runs.size() == 1 ? runs[0].name : fmt::format("{} runs", runs.size());
}

}  // namespace

std::string report_page(Runs runs, const std::string& made) {
  TANDEM_CHECK(!runs.empty(), "a report needs a run");
  std::string html =
      fmt::format("{0}{1}</title>\n<style>{2}</style>\n</head>\n<body>\n<h1>Tandem: {1}</h1>\n",
                  report_page_start, escape_html(title_of(runs)), page_style);
  html += notes(runs) + summary_table(runs) + remarks(runs);
  html +=
      "<h2>Curves</h2>\n"
      "<input type=\"radio\" name=\"x\" id=\"by-step\" checked autocomplete=\"off\"><label "
      "for=\"by-step\"> by step</label> <input type=\"radio\" name=\"x\" id=\"by-log-step\">"
      "<label for=\"by-log-step\"> by step, logarithmic</label> "
      "<input type=\"radio\" name=\"x\" id=\"by-time\"><label for=\"by-time\"> by seconds of "
      "training and evaluation</label>\n<main>\n";
  html += legend(runs) + all_charts(runs, XAxis::step) + all_charts(runs, XAxis::log_step) +
          all_charts(runs, XAxis::time);
  html += "<h2>Time by phase</h2>\n" + phase_table(runs);
  html +=
      "<p><small>Data wait and exposed communication are rank 0's; compute is the rest of the "
      "training time. Checkpoints are not in it.</small></p>\n";
  html += "<h2>Config</h2>\n" +
          facts_table(runs, [](const RunHistory& run) -> const Facts& { return run.config; });
  html += "<h2>Environment</h2>\n" +
          facts_table(runs, [](const RunHistory& run) -> const Facts& { return run.environment; });
  html += fmt::format("</main>\n<footer>{}</footer>\n<script>{}</script>\n</body>\n</html>\n",
                      escape_html(made), page_script);
  return html;
}

}  // namespace tandem
