#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "cli/run_folder.h"

namespace tandem::cli {

/// A test that runs `tandem tune run.toml`, with folders of its own for what it keeps and for its
/// runs' files.
class TuneRun : public RunTest {
 protected:
  TuneRun() { std::filesystem::create_directory(path("tmp")); }

  Launch launch(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"tune", "run.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return {.command = tandem(arguments),
            .folder = root(),
            .environment = {{"TANDEM_CACHE_DIR", path("cache").string()},
                            {"TMPDIR", path("tmp").string()}}};
  }
  Outcome tune(const std::vector<std::string>& more) const { return run(launch(more)); }

  /// But for what an mpirun that was ended in its start leaves, all in one folder.
  std::size_t files_in(const std::string& folder) const {
    if (!std::filesystem::exists(path(folder))) return 0;
    std::size_t found = 0;
    for (std::filesystem::recursive_directory_iterator each(path(folder)), end; each != end;
         ++each) {
      const bool of_mpirun = each->path().filename().string().starts_with("ompi.");
      if (of_mpirun) each.disable_recursion_pending();
      found += of_mpirun ? 0 : 1;
    }
    return found;
  }
  /// Processes whose command line names this test's folder.
  std::size_t processes_left() const {
    std::size_t found = 0;
    for (const std::filesystem::directory_entry& entry :
         std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      found += occurrences(read_file(entry.path() / "cmdline"), path("tmp").string()) > 0 ? 1 : 0;
    }
    return found;
  }
};

}  // namespace tandem::cli
