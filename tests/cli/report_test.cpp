#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>

#include "cli/message_check.h"
#include "cli/run_folder.h"

// tandem train, then tandem report: the page holds what the runs recorded and loads nothing.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// One curve of a chart.
struct Curve {
  std::string name;
  int points = 0;
};

/// The curves of the first chart with this title: the one by step.
std::vector<Curve> curves_of(const std::string& html, const std::string& title) {
  const std::size_t at = html.find("<figcaption>" + title + " ");
  EXPECT_NE(at, std::string::npos) << title;
  if (at == std::string::npos) return {};
  const std::string chart = html.substr(at, html.find("</figure>", at) - at);
  const std::regex pattern("data-name=\"([^\"]*)\"><path d=\"([^\"]*)\"");
  std::vector<Curve> curves;
  for (std::sregex_iterator each(chart.begin(), chart.end(), pattern), end; each != end; ++each) {
    const std::string path = (*each)[2];
    const auto points = occurrences(path, "M") + occurrences(path, "L");
    curves.push_back({(*each)[1], static_cast<int>(points)});
  }
  return curves;
}

class Report : public RunTest {
 protected:
  /// The page about these runs.
  std::string report(std::vector<std::string> runs) {
    runs.insert(runs.begin(), "report");
    runs.insert(runs.end(), {"--out", "page.html"});
    const Outcome outcome = command(runs);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    warnings_ = outcome.err;
    return read_file(path("page.html"));
  }

  /// Ends metrics.jsonl in the middle of its last record of training, as a kill in the middle of a
  /// write does. Returns how many whole ones are left.
  int tear(const std::string& run) {
    const fs::path file = path(run) / "metrics.jsonl";
    const std::string text = read_file(file);
    fs::resize_file(file, text.rfind("{\"event\": \"train\"") + 40);
    const auto left = occurrences(read_file(file), "\"train\"");
    return static_cast<int>(left) - 1;  // the torn one begins so too
  }

  std::string warnings_;
};

TEST_F(Report, HoldsBothRunsAndLoadsNothing) {
  trained("runs/slow", set({"train.epochs=2", "optimizer.lr=0.013"}));
  trained("runs/early", set({"train.epochs=20", "optimizer.clip_norm=1", "optimizer.lr=0.17",
                             "train.early_stop_patience=1", "train.early_stop_min_delta=1"}));
  const std::string html = report({"runs/slow", "runs/early"});
  EXPECT_EQ(warnings_, "");
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "url(", "fetch(",
                              "import(", "XMLHttpRequest", "<iframe", "<img", "srcset"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("<title>Tandem: 2 runs</title>"), std::string::npos);
  // Two epochs of eight steps each, an evaluation after each; both runs end after two.
  for (const char* title : {"Loss", "Top-1 accuracy"}) {
    const std::vector<Curve> curves = curves_of(html, title);
    ASSERT_EQ(curves.size(), 4U) << title;
    const std::pair<const char*, int> expected[] = {
        {"slow", 16}, {"slow, test", 2}, {"early", 16}, {"early, test", 2}};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(curves[i].name, expected[i].first) << title;
      EXPECT_EQ(curves[i].points, expected[i].second) << title << ' ' << curves[i].name;
    }
  }
  for (const char* title : {"Throughput", "Learning rate"}) {
    const std::vector<Curve> curves = curves_of(html, title);
    ASSERT_EQ(curves.size(), 2U) << title;
    for (const Curve& curve : curves) EXPECT_EQ(curve.points, 16) << title << ' ' << curve.name;
  }
  const std::vector<Curve> norms = curves_of(html, "Gradient norm");
  ASSERT_EQ(norms.size(), 2U);
  EXPECT_EQ(norms[0].points, 0);  // it is not clipped
  EXPECT_EQ(norms[1].points, 16);
  // What differs of the configs and what does not, and why one of them ended.
  EXPECT_NE(html.find("optimizer.lr</th><td>0.013</td><td>0.17</td>"), std::string::npos);
  EXPECT_NE(html.find("train.global_batch</th><td>32</td><td>32</td>"), std::string::npos);
  EXPECT_NE(html.find("early</span> ended early at step 16: top1 has not risen by more than 1 "),
            std::string::npos);
  EXPECT_EQ(occurrences(html, "class=\"remark\""), 1U);
  // The final values are the records'.
  const Record last = read_metrics(path("runs/slow"), "evaluation").back();
  EXPECT_NE(html.find(fmt::format("{:.4f}</td>", last["loss"])), std::string::npos);
}

TEST_F(Report, ReadsWhatAKilledRunLeft) {
  trained("whole", set({"train.epochs=2"}));
  trained("killed", set({"train.epochs=2"}));
  const int left = tear("killed");
  ASSERT_EQ(left, 15);
  const std::string html = report({"whole", "killed"});
  EXPECT_EQ(warnings_, "") << "half a last line is nothing to warn of";
  const std::vector<Curve> curves = curves_of(html, "Loss");
  ASSERT_EQ(curves.size(), 4U);
  EXPECT_EQ(curves[0].points, 16);
  EXPECT_EQ(curves[2].name, "killed");
  EXPECT_EQ(curves[2].points, left);
  // Half a line in the middle of the file, as nobody leaves it, is told.
  write_file(path("killed/metrics.jsonl"),
             read_file(path("killed/metrics.jsonl")) + "\n{\"event\": \"end\", \"step\": 16}\n");
  EXPECT_EQ(curves_of(report({"killed"}), "Loss").at(0).points, left);
  EXPECT_NE(warnings_.find("killed/metrics.jsonl:"), std::string::npos) << warnings_;
  EXPECT_NE(warnings_.find("no record; 1 such line is left out"), std::string::npos) << warnings_;
}

TEST_F(Report, ReplacesNothingButPages) {
  trained("run", set({"train.max_steps=1"}));
  fs::create_symlink("run/config.toml", path("page-link.html"));
  write_file(path("notes.html"), "<!DOCTYPE html>\n<html>my notes</html>\n");
  for (const char* file : {"run/metrics.jsonl", "run/config.toml", "page-link.html", "notes.html",
                           "run/checkpoints/best.safetensors"}) {
    const std::string before = read_file(path(file));
    ASSERT_FALSE(before.empty()) << file;
    expect_one_message(command({"report", "run", "--out", file}),
                       {std::string("'") + file + "' exists and is no page of tandem report"});
    EXPECT_TRUE(read_file(path(file)) == before) << file;
  }
  const std::string first = report({"run"});
  write_file(path("page.html"), first.substr(0, first.size() / 2));
  EXPECT_GT(report({"run"}).size(), first.size() / 2);
  write_file(path("page.html"), "");
  EXPECT_GT(report({"run"}).size(), first.size() / 2);
}

TEST_F(Report, TakesARunsRecordsForTheRun) {
  trained("run", set({"train.max_steps=1"}));
  EXPECT_EQ(curves_of(report({"run/metrics.jsonl"}), "Loss").size(),
            curves_of(report({"run"}), "Loss").size());
  expect_one_message(command({"report", "run", "run/metrics.jsonl"}), {"is given twice"});
}

TEST_F(Report, TakesAFolderOfRunsAndPassesPagesOver) {
  trained("runs/a", set({"train.max_steps=1"}));
  trained("runs/b", set({"train.max_steps=1"}));
  const std::size_t both = curves_of(report({"runs/a", "runs/b"}), "Loss").size();
  EXPECT_EQ(curves_of(report({"runs"}), "Loss").size(), both);
  fs::copy_file(path("page.html"), path("runs/report.html"));
  EXPECT_EQ(curves_of(report({"runs/a", "runs/b", "runs/report.html"}), "Loss").size(), both);
  EXPECT_NE(warnings_.find("runs/report.html is a report; it is passed over"), std::string::npos)
      << warnings_;
  EXPECT_EQ(command({"report", "runs/report.html"}).code, 2);
  expect_one_message(command({"report", "runs/report.html", "page.html"}),
                     {"reports alone are named; give folders of runs"});
  EXPECT_EQ(command({"report", "runs/a", "runs/a/train.log"}).code, 2) << "no report";
  // One that has not begun yet.
  fs::create_directory(path("runs/young"));
  write_file(path("runs/young/metrics.jsonl"), "");
  EXPECT_EQ(curves_of(report({"runs"}), "Loss").size(), both);
  write_file(path("runs/young/metrics.jsonl"), "{\"event\": \"sta");
  EXPECT_EQ(curves_of(report({"runs"}), "Loss").size(), both) << "killed within its first record";
  // One that goes by its own name.
  fs::create_directory_symlink("b", path("runs/a_latest"));
  const std::vector<Curve> curves = curves_of(report({"runs"}), "Loss");
  EXPECT_EQ(curves.size(), both);
  EXPECT_TRUE(
      std::ranges::any_of(curves, [](const Curve& curve) { return curve.name.starts_with("b"); }));
}

TEST_F(Report, LeavesNothingBesideThePageWhenStopped) {
  trained("run", set({"train.max_steps=1"}));
  fs::create_directories(path("pages"));
  for (int round = 0; round < 10; ++round) {
    Program program(
        {.command = tandem({"report", "run", "--out", "pages/page.html"}), .folder = root()});
    // As soon as anything of the page is there, too soon for a wait between two looks; at times the
    // page is whole by then.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (program.running() && fs::is_empty(path("pages"))) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
    if (program.running()) program.signal(SIGINT);
    const int code = program.wait().code;
    EXPECT_TRUE(code == 0 || code == 128 + SIGINT) << code;
    fs::remove(path("pages/page.html"));
    EXPECT_TRUE(fs::is_empty(path("pages")));
  }
}

TEST_F(Report, SaysInOneLineWhatIsNoRun) {
  trained("run", set({"train.max_steps=1"}));
  fs::create_directories(path("empty"));
  expect_one_message(command({"report", "run", "empty"}),
                     {"empty/metrics.jsonl: no such file; give the folders of runs"});
  expect_one_message(command({"report", "nowhere"}), {"nowhere/metrics.jsonl: no such file"});
  expect_one_message(command({"report", "run.toml"}), {"run.toml/metrics.jsonl: no such file"});
  expect_one_message(command({"report", "run", "./run/"}), {"is given twice"});
  // Killed within its first record.
  write_file(path("empty/metrics.jsonl"), "{\"event\": \"sta");
  expect_one_message(command({"report", "empty"}),
                     {"empty/metrics.jsonl: no record of a run in it; the run has not begun"});
  expect_one_message(command({"report", "run", "--out", "nowhere/page.html"}),
                     {"nowhere/page.html"});
  EXPECT_FALSE(fs::exists(path("report.html")));
}

}  // namespace
}  // namespace tandem::cli
