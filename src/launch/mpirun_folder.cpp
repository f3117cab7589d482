#include "launch/mpirun_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/host_name.h"
#include "base/remove_folder.h"
#include "launch/own_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// As Open MPI looks for it.
fs::path temporary_directory() {
  for (const char* name : {"TMPDIR", "TEMP", "TMP"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "/tmp";
}

}  // namespace

void remove_mpirun_folder(pid_t mpirun) {
  const std::string name = host_name();
  // With or without the domain.
  for (const std::string& each : {name, name.substr(0, name.find('.'))}) {
    const fs::path all = temporary_directory() / fmt::format("ompi.{}.{}", each, ::geteuid());
    if (!is_own_folder(all)) continue;
    // What stays in a temporary folder harms nobody.
    static_cast<void>(remove_folder(all / fmt::format("pid.{}", mpirun)));
  }
}

}  // namespace tandem
