#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/folder_entries.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/file_kind.h"
#include "cli/usage_error.h"
#include "report/page.h"
#include "report/run_history.h"
#include "train/environment.h"
#include "train/stop_signal.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out = "report.html";
};

constexpr FileKind report_kind{.name = "page of tandem report", .bytes = report_page_start};

/// Whether there is a whole line: else the run has not begun, or was killed as it did. Records that
/// cannot be read are a run's, which reading them tells.
bool has_begun(const fs::path& run) {
  std::error_code code;
  if (!fs::is_regular_file(run / "metrics.jsonl", code)) return false;
  std::ifstream records(run / "metrics.jsonl");
  if (!records) return true;
  records.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  return records.gcount() > 0 && !records.eof();
}

/// Of a folder of runs, each once, whatever links lead to it; none where it is a run's itself, or
/// holds none.
std::vector<fs::path> runs_below(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code code;
  if (fs::exists(folder / "metrics.jsonl", code)) return runs;
  std::vector<fs::path> entries = entries_of(folder).paths;
  // Links last: a run goes by its own name.
  std::ranges::sort(entries, {}, [&](const fs::path& entry) {
    return std::pair(fs::is_symlink(entry, code), entry);
  });
  std::set<fs::path> places;
  for (const fs::path& entry : entries) {
    if (has_begun(entry) && places.insert(fs::weakly_canonical(entry, code)).second) {
      runs.push_back(entry);
    }
  }
  std::ranges::sort(runs);
  return runs;
}

/// Whoever names a run's records means the run, and whoever names a folder of runs those. Pages of
/// earlier reports, as among runs/*, are passed over.
std::vector<fs::path> folders_of(const std::vector<fs::path>& named) {
  std::vector<fs::path> folders;
  std::error_code code;
  for (const fs::path& each : named) {
    if (!fs::is_regular_file(each, code)) {
      const std::vector<fs::path> runs = runs_below(each);
      if (runs.empty()) folders.push_back(each);
      folders.insert(folders.end(), runs.begin(), runs.end());
    } else if (each.filename() == "metrics.jsonl") {
      folders.push_back(each.has_parent_path() ? each.parent_path() : ".");
    } else if (named.size() > 1 && is_of_kind(each, report_kind)) {
      log_warning("{} is a report; it is passed over", each.string());
    } else {
      folders.push_back(each);
    }
  }
  return folders;
}

/// Returns the signal by which somebody asked to stop meanwhile (those of StopSignal); 0 where the
/// page is there. Nothing half written is left beside it either way.
int write_page(const std::filesystem::path& path, const std::string& text) {
  const StopSignal stop;
  AtomicFile page(path);
  page.write(text);
  if (stop.requested()) return stop.signal_number();
  page.commit();
  return 0;
}

int report(const ReportArguments& arguments) {
  expect_replaceable(arguments.out, report_kind);
  const std::vector<fs::path> folders = folders_of(arguments.folders);
  if (folders.empty()) input_error("tandem report: reports alone are named; give folders of runs");
  const std::vector<RunHistory> runs = read_runs(folders);
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) log_warning("{}", note);
  }
  const std::string page =
      report_page(runs, fmt::format("Made by tandem {} on {}.", TANDEM_VERSION, utc_time()));
  if (const int signal = write_page(arguments.out, page)) {
    log_warning("stopped before '{}' was written", arguments.out.string());
    return ExitCode::of_signal(signal);
  }
  std::cout << fmt::format("{}: {} run{}\n", arguments.out.string(), runs.size(),
                           runs.size() == 1 ? "" : "s");
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("report", "Write a page with the curves of runs, side by side");
  command->footer(
      "The page is one HTML file that needs no network. Curves of loss, accuracy, throughput and "
      "learning rate; time by phase; what differs in config and environment.\n"
      "Example: tandem report runs/a runs/b --out report.html");
  auto arguments = std::make_shared<ReportArguments>();
  command
      ->add_option("RUN", arguments->folders,
                   "Folders of runs, or their metrics.jsonl, or folders that hold runs")
      ->required()
      ->check(not_empty());
  command->add_option("--out", arguments->out, "The page to write; an earlier page is replaced")
      ->type_name("FILE")
      ->check(not_empty())
      ->capture_default_str();
  command->callback([&chosen, arguments] {
    chosen = on_root([arguments](const MpiSession&) { return report(*arguments); });
  });
}

}  // namespace tandem
