#include "launch/reused_mps.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tandem {

void require_mps_share(const SlotRequest& request, const ReadEnvironment& environment) {
  constexpr const char* name = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
  const char* const text = environment(name);
  // --sm-percent takes its place.
  if (!request.reuse_mps || request.sm_percent > 0 || text == nullptr) return;
  const auto share = parse_number<double>(text);
  if (share && *share > 0.0 && *share <= 100.0) return;
  input_error(
      "{}='{}' is no share of a GPU, of which --reuse-mps gives each rank as much; set it to more "
      "than 0 and at most 100, unset it, or give --sm-percent",
      name, text);
}

void require_free_clients(const SlotRequest& request, const GpuList& host,
                          const std::vector<GpuInfo>& used, const MpsControl& daemon) {
  if (!request.reuse_mps) return;
  const std::optional<std::vector<pid_t>> clients = daemon.clients();
  if (!clients) return;
  const int limit = mps_client_limit(host.cuda_version);
  for (const GpuInfo& gpu : used) {
    const auto named = static_cast<int>(std::ranges::count_if(*clients, [&](pid_t client) {
      return std::ranges::find(gpu.processes, client) != gpu.processes.end();
    }));
    const bool all = named == 0 && host.gpus.size() == 1;
    const int there = all ? static_cast<int>(clients->size()) : named;
    if (there + request.processes_per_gpu <= limit) continue;
    input_error(
        "--reuse-mps: CUDA MPS takes {} processes a GPU with this driver, and the daemon in '{}' "
        "has {} clients on {} ({}) already, so that {} more do not fit; ask for fewer, end some of "
        "those, use --colocation folded, or leave --reuse-mps out",
        limit, daemon.pipe_directory().string(), there, gpu.uuid, gpu.name,
        request.processes_per_gpu);
  }
}

}  // namespace tandem
