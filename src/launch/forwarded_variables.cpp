#include "launch/forwarded_variables.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/process_report.h"
#include "base/shared_memory.h"

namespace tandem {

std::vector<std::string> forwarded_variables(std::span<const std::string> environment,
                                             bool reuses_mps) {
  std::vector<std::string> names;
  for (const std::string& text : environment) {
    const std::string_view name = std::string_view(text).substr(0, text.find('='));
    // Of this host's processes, each.
    if (name == shared_memory_folder_variable || name == process_report_variable) continue;
    const bool of_mps = reuses_mps && name == "CUDA_MPS_PIPE_DIRECTORY";
    if (name.starts_with("TANDEM_") || name.starts_with("NCCL_") || name == "CUDA_DEVICE_ORDER" ||
        of_mps) {
      names.emplace_back(name);
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string> environment_texts() {
  std::vector<std::string> texts;
  for (char** each = environ; *each != nullptr; ++each) texts.emplace_back(*each);
  return texts;
}

}  // namespace tandem
