#include "launch/mps_environment.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace tandem {

std::vector<std::string> foreign_mps_limits(const SlotRequest& request,
                                            const ReadEnvironment& environment) {
  std::vector<std::string> found;
  if (request.reuse_mps) return found;
  for (const char* name :
       {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"}) {
    if (environment(name) != nullptr) found.emplace_back(name);
  }
  return found;
}

void warn_of_foreign_mps(const SlotRequest& request, const ReadEnvironment& environment) {
  std::vector<std::string> names = foreign_mps_limits(request, environment);
  if (!request.reuse_mps && environment("CUDA_MPS_PIPE_DIRECTORY") != nullptr) {
    names.insert(names.begin(), "CUDA_MPS_PIPE_DIRECTORY");
  }
  if (names.empty()) return;
  for (std::string& name : names) name += fmt::format("='{}'", environment(name.c_str()));
  log_warning(
      "the environment's {} {} ignored: the ranks use no MPS daemon but the job's own, if it has "
      "one; --reuse-mps takes yours, with its limits, and --sm-percent sets the share of each rank",
      join(names, ", "), names.size() == 1 ? "is" : "are");
}

}  // namespace tandem
