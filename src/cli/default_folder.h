#pragma once

#include <filesystem>
#include <string>

namespace tandem {

/// Where a training run of CONFIG writes: `out`, or runs/NAME of the config where `out` is empty.
inline std::filesystem::path run_folder(const std::string& config, const std::string& out) {
  if (!out.empty()) return out;
  return std::filesystem::path("runs") / std::filesystem::path(config).stem();
}

}  // namespace tandem
