#pragma once

#include <filesystem>
#include <string>

namespace tandem {

/// Where a training run of CONFIG writes: `out`, or, where that is empty, runs/NAME of the config,
/// of a run's own config.toml that of the run's folder.
inline std::filesystem::path run_folder(const std::string& config, const std::string& out) {
  if (!out.empty()) return out;
  const std::filesystem::path path(config);
  const std::filesystem::path run = path.parent_path().filename();
  const bool of_run = path.filename() == "config.toml" && !run.empty() && run != "." && run != "..";
  return std::filesystem::path("runs") / (of_run ? run : path.stem());
}

}  // namespace tandem
