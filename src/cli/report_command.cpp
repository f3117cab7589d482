#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/log.h"
#include "cli/commands.h"
#include "report/page.h"
#include "report/run_history.h"
#include "train/environment.h"

namespace tandem {
namespace {

struct ReportArguments {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out = "report.html";
};

int report(const ReportArguments& arguments) {
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
  command->add_option("RUN", arguments->folders, "Folders of runs")->required();
  command->add_option("--out", arguments->out, "The page to write, replaced where it exists")
      ->type_name("FILE")
      ->capture_default_str();
  command->callback([&chosen, arguments] {
    chosen = on_root([arguments](const MpiSession&) { return report(*arguments); });
  });
}

}  // namespace tandem
