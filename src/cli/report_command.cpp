#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/usage_error.h"
#include "report/page.h"
#include "report/run_history.h"
#include "train/environment.h"

namespace tandem {
namespace {

struct ReportArguments {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out = "report.html";
};

/// A page of an earlier report may be replaced, a run's records or somebody's notes may not.
/// Whatever is no ordinary file AtomicFile refuses.
void expect_replaceable(const std::filesystem::path& file) {
  std::error_code not_there;
  if (!std::filesystem::is_regular_file(file, not_there)) return;
  std::ifstream stream(file, std::ios::binary);
  std::string start(report_page_start.size(), '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  if (!stream.is_open() || (!start.empty() && start != report_page_start)) {
    input_error("'{}' exists and is no page of tandem report; choose another name or remove it",
                file.string());
  }
}

int report(const ReportArguments& arguments) {
  expect_replaceable(arguments.out);
  const std::vector<RunHistory> runs = read_runs(arguments.folders);
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) log_warning("{}", note);
  }
  AtomicFile page(arguments.out);
  page.write(
      report_page(runs, fmt::format("Made by tandem {} on {}.", TANDEM_VERSION, utc_time())));
  page.commit();
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
  command->add_option("RUN", arguments->folders, "Folders of runs")->required()->check(not_empty());
  command->add_option("--out", arguments->out, "The page to write; an earlier page is replaced")
      ->type_name("FILE")
      ->check(not_empty())
      ->capture_default_str();
  command->callback([&chosen, arguments] {
    chosen = on_root([arguments](const MpiSession&) { return report(*arguments); });
  });
}

}  // namespace tandem
