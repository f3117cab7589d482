#include "cli/rank_config.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/file_work.h"
#include "base/log.h"
#include "base/standstill.h"
#include "parallel/mpi/mpi_start_watch.h"

namespace tandem {

double rank_files_seconds() {
  const double others = mpi_start_seconds([](const char* name) { return std::getenv(name); });
  return std::min(in_turn(0.8 * others, std::max(process_rank(), 0)), 0.95 * others);
}

void await_rank_files(const std::function<void()>& read) {
  await_file_work({.seconds = rank_files_seconds(), .key = "TANDEM_START_SECONDS"}, read, [] {});
}

void try_files(double seconds, const std::function<void()>& read) {
  await_file_work({.seconds = seconds, .key = "TANDEM_START_SECONDS", .last_words = false}, read,
                  [] {});
}

RunConfig read_rank_config(const std::filesystem::path& file,
                           const std::vector<std::string>& overrides) {
  std::optional<RunConfig> config;
  await_rank_files([&] {
    ConfigTable table = ConfigTable::from_file(file);
    for (const std::string& assignment : overrides) table.override_key(assignment);
    config = read_run_config(table);
  });
  return std::move(config).value();
}

}  // namespace tandem
