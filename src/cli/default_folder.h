#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace tandem {

/// Where a training run of CONFIG writes: `out`; where that is empty, runs/NAME by the config's
/// name; where CONFIG is the config.toml of a run's folder, that folder.
inline std::filesystem::path run_folder(const std::string& config, const std::string& out) {
  if (!out.empty()) return out;
  const std::filesystem::path path(config);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code code;
  const bool of_run =
      path.filename() == "config.toml" && std::filesystem::exists(folder / "metrics.jsonl", code);
  return of_run ? folder : std::filesystem::path("runs") / path.stem();
}

}  // namespace tandem
