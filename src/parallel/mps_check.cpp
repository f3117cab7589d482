#include "parallel/mps_check.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/gather_text.h"
#include "parallel/mps_control.h"

namespace tandem {
namespace {

constexpr int facts = 2;
/// What every rank says of itself.
struct Attachment {
  bool attached = false;
  bool meant = false;  ///< its environment names an MPS daemon
};

std::vector<Attachment> gather(Communicator& host, bool shares) {
  const std::array<std::int64_t, facts> mine{shares && attached_to_mps(),
                                             std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr};
  const std::vector<std::int64_t> all = all_gather_values(host, mine);
  std::vector<Attachment> attachments;
  for (std::size_t at = 0; at < all.size(); at += facts) {
    attachments.push_back({all[at] != 0, all[at + 1] != 0});
  }
  return attachments;
}

}  // namespace

bool ranks_run_under_mps(Communicator& host, const RankTopology& topology) {
  const std::vector<Attachment> ranks = gather(host, topology.colocated_size() > 1);
  bool time_sliced = false;
  for (int device = 0; device < topology.devices(); ++device) {
    const std::vector<int>& here = topology.ranks_on_device(device);
    if (here.size() == 1) continue;
    std::vector<int> outside;
    bool meant = false;
    for (const int rank : here) {
      const Attachment& each = ranks[static_cast<std::size_t>(rank)];
      if (!each.attached) outside.push_back(rank);
      meant |= each.meant;
    }
    if (outside.empty()) continue;
    if (meant || outside.size() < here.size()) {
      input_error(
          "{} on {} of host {} {} no client of the MPS daemon of CUDA_MPS_PIPE_DIRECTORY; start "
          "the "
          "job with `tandem launch`, or unset CUDA_MPS_PIPE_DIRECTORY to take turns on the GPU",
          ranks_text(outside), topology.device_name(device),
          topology.host_name(topology.host_of(outside.front())),
          outside.size() == 1 ? "is" : "are");
    }
    time_sliced = true;
  }
  if (time_sliced) {
    log_warning(
        "several ranks share a GPU without MPS: they take turns on it, and most of the gain is "
        "lost; start the job with `tandem launch --ranks-per-gpu K -- train CONFIG`");
  }
  return topology.colocated_size() > 1 && ranks[static_cast<std::size_t>(host.rank())].attached;
}

}  // namespace tandem
