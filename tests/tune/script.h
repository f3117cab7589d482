#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace tandem {

/// A shell script in the folder, to be run as a program.
inline std::string write_script(const TemporaryFolder& folder, const std::string& text) {
  const std::filesystem::path path = folder / "program";
  std::ofstream(path) << "#!/bin/sh\n" << text;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

}  // namespace tandem
