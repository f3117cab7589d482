#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/text.h"
#include "report/html.h"
#include "report/line_chart.h"
#include "report/ticks.h"

namespace tandem {
namespace {

constexpr double missing = std::numeric_limits<double>::quiet_NaN();
constexpr const char* absent = "–";

/// Where a run spent its time, seconds.
struct Phases {
  double compute = 0.0;
  double data_wait = 0.0;
  double communication = 0.0;
  double evaluation = 0.0;
  double total() const { return compute + data_wait + communication + evaluation; }
};

double or_zero(double value) { return std::isfinite(value) ? value : 0.0; }

Phases phases_of(const RunHistory& run) {
  Phases sum;
  for (const TrainRecord& record : run.train) {
    const double waiting = or_zero(record.data_wait_seconds);
    const double communication = or_zero(record.exposed_communication_seconds);
    sum.data_wait += waiting;
    sum.communication += communication;
    sum.compute += std::max(0.0, or_zero(record.seconds) - waiting - communication);
  }
  for (const EvaluationRecord& record : run.evaluations) sum.evaluation += or_zero(record.seconds);
  return sum;
}

double mean_throughput(const RunHistory& run) {
  double samples = 0.0;
  double seconds = 0.0;
  for (const TrainRecord& record : run.train) {
    if (!(record.samples >= 0 && record.seconds > 0)) continue;
    samples += record.samples;
    seconds += record.seconds;
  }
  return seconds > 0 ? samples / seconds : missing;
}

const EvaluationRecord* best_evaluation(const RunHistory& run) {
  const EvaluationRecord* best = nullptr;
  for (const EvaluationRecord& each : run.evaluations) {
    const bool counts = std::isfinite(each.top1) && std::isfinite(each.loss);
    if (counts && (best == nullptr || each.top1 > best->top1)) best = &each;
  }
  return best;
}

/// A column of numbers of the summary.
struct Column {
  const char* title;
  enum class Better : std::uint8_t { none, lower, higher } better;
  double (*value)(const RunHistory& run);
  std::string (*text)(double value);
};

std::string percent(double value) { return fmt::format("{:.2f} %", 100.0 * value); }
std::string four_digits(double value) { return fmt::format("{:.4f}", value); }
std::string whole(double value) { return format_count(static_cast<std::int64_t>(value)); }

const std::array<Column, 9>& columns() {
  using Better = Column::Better;
  static const std::array<Column, 9> all{{
      {"steps", Better::none,
       [](const RunHistory& run) {
         return run.train.empty() ? missing : static_cast<double>(run.train.back().step);
       },
       whole},
      {"epochs", Better::none,
       [](const RunHistory& run) { return run.train.empty() ? missing : run.train.back().epoch; },
       format_short},
      {"final training loss", Better::lower,
       [](const RunHistory& run) { return run.train.empty() ? missing : run.train.back().loss; },
       four_digits},
      {"final test loss", Better::lower,
       [](const RunHistory& run) {
         return run.evaluations.empty() ? missing : run.evaluations.back().loss;
       },
       four_digits},
      {"best top‑1", Better::higher,
       [](const RunHistory& run) {
         const EvaluationRecord* best = best_evaluation(run);
         return best == nullptr ? missing : best->top1;
       },
       percent},
      {"at step", Better::none,
       [](const RunHistory& run) {
         const EvaluationRecord* best = best_evaluation(run);
         return best == nullptr ? missing : static_cast<double>(best->step);
       },
       whole},
      {"final top‑1", Better::higher,
       [](const RunHistory& run) {
         return run.evaluations.empty() ? missing : run.evaluations.back().top1;
       },
       percent},
      {"final top‑5", Better::higher,
       [](const RunHistory& run) {
         return run.evaluations.empty() ? missing : run.evaluations.back().top5;
       },
       percent},
      {"images/s", Better::higher, mean_throughput, format_short},
  }};
  return all;
}

/// The best value of a column; nothing where a single run has one.
std::optional<double> best_of(const Column& column, std::span<const RunHistory> runs) {
  std::vector<double> values;
  for (const RunHistory& run : runs) {
    if (const double value = column.value(run); std::isfinite(value)) values.push_back(value);
  }
  if (column.better == Column::Better::none || values.size() < 2) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(values);
  if (low == high) return std::nullopt;
  return column.better == Column::Better::lower ? low : high;
}

/// One run's value of a name, or nothing.
const std::string* find(const Facts& facts, const std::string& name) {
  const auto found =
      std::ranges::find_if(facts, [&](const auto& fact) { return fact.first == name; });
  return found == facts.end() ? nullptr : &found->second;
}

std::string heads(std::span<const RunHistory> runs) {
  std::string html;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    html += fmt::format("<th scope=\"col\">{}</th>", run_label(runs[i], i));
  }
  return html;
}

struct Row {
  std::string html;
  bool differs = false;
};

Row fact_row(const std::string& name, std::span<const RunHistory> runs,
             const std::function<const Facts&(const RunHistory&)>& facts) {
  const std::string* first = nullptr;
  Row row;
  bool compared = false;
  std::string cells;
  for (const RunHistory& run : runs) {
    const std::string* value = find(facts(run), name);
    // A run that has no facts at all has nothing to compare.
    if (!facts(run).empty()) {
      if (!compared) first = value;
      compared = true;
      row.differs |= (value == nullptr) != (first == nullptr) ||
                     (value != nullptr && first != nullptr && *value != *first);
    }
    cells += fmt::format("<td>{}</td>", value == nullptr ? absent : escape_html(*value));
  }
  row.html = fmt::format("<tr{}><th scope=\"row\">{}{}</th>{}</tr>\n",
                         row.differs ? " class=\"differs\"" : "", row.differs ? "≠ " : "",
                         escape_html(name), cells);
  return row;
}

}  // namespace

std::string run_label(const RunHistory& run, std::size_t index) {
  return fmt::format("<span class=\"{}\"><i></i>{}</span>", run_classes(index),
                     escape_html(run.name));
}

std::string summary_table(std::span<const RunHistory> runs) {
  std::string html =
      R"(<div class="wide"><table class="numbers"><thead><tr><th>run</th><th>model</th>)";
  for (const Column& column : columns()) html += fmt::format("<th>{}</th>", column.title);
  html += "<th>time</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string* model = find(runs[i].environment, "model");
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td>", run_label(runs[i], i),
                        model == nullptr ? absent : escape_html(*model));
    for (const Column& column : columns()) {
      const double value = column.value(runs[i]);
      const bool best = best_of(column, runs) == value;
      html += fmt::format("<td{}>{}{}</td>", best ? " class=\"best\"" : "", best ? "★ " : "",
                          std::isfinite(value) ? column.text(value) : absent);
    }
    html += fmt::format("<td>{}</td></tr>\n", format_duration(phases_of(runs[i]).total()));
  }
  return html + "</tbody></table></div>\n";
}

std::string phase_table(std::span<const RunHistory> runs) {
  double longest = 0.0;
  for (const RunHistory& run : runs) longest = std::max(longest, phases_of(run).total());
  std::string html =
      "<div class=\"wide\"><table class=\"numbers phases\"><thead><tr><th>run</th><th></th>"
      "<th><i class=\"compute\"></i>compute</th><th><i class=\"wait\"></i>data wait</th>"
      "<th><i class=\"exposed\"></i>exposed communication</th>"
      "<th><i class=\"evaluate\"></i>evaluation</th></tr></thead><tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Phases phases = phases_of(runs[i]);
    const double total = phases.total();
    std::string bar;
    std::string cells;
    for (const auto& [name, seconds] :
         {std::pair{"compute", phases.compute}, std::pair{"wait", phases.data_wait},
          std::pair{"exposed", phases.communication}, std::pair{"evaluate", phases.evaluation}}) {
      bar += fmt::format(R"(<i class="{}" style="width:{:.2f}%"></i>)", name,
                         longest > 0 ? 100.0 * seconds / longest : 0.0);
      cells += fmt::format("<td>{:.3f} s <small>{:.1f} %</small></td>", seconds,
                           total > 0 ? 100.0 * seconds / total : 0.0);
    }
    html += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"bar\">{}</td>{}</tr>\n",
                        run_label(runs[i], i), bar, cells);
  }
  return html + "</tbody></table></div>\n";
}

std::string facts_table(std::span<const RunHistory> runs,
                        const std::function<const Facts&(const RunHistory&)>& facts) {
  std::vector<std::string> names;
  for (const RunHistory& run : runs) {
    for (const auto& [name, value] : facts(run)) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  if (names.empty()) return "<p class=\"none\">Not recorded.</p>\n";
  std::string differing;
  std::string same;
  for (const std::string& name : names) {
    const Row row = fact_row(name, runs, facts);
    (row.differs ? differing : same) += row.html;
  }
  const auto table = [&runs](const std::string& rows) {
    return fmt::format(
        "<div class=\"wide\"><table class=\"facts\"><thead><tr><th></th>{}</tr></thead><tbody>\n{}"
        "</tbody></table></div>\n",
        heads(runs), rows);
  };
  if (runs.size() == 1) return table(same);
  std::string html =
      differing.empty() ? "<p class=\"none\">No differences.</p>\n" : table(differing);
  if (!same.empty()) {
    html += "<details><summary>The same in all runs</summary>\n" + table(same) + "</details>\n";
  }
  return html;
}

}  // namespace tandem
