#include "parallel/placement/mps_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/gather_text.h"
#include "parallel/placement/mps_control.h"

namespace tandem {
namespace {

/// What is known of every rank.
struct Attachment {
  bool attached = false;  ///< it is among its GPU's daemon's clients
  bool told = false;      ///< its driver says that it is a client
  bool answered = false;  ///< whether its GPU's daemon told its clients at all
  bool meant = false;     ///< its environment names an MPS daemon
};

/// The GPU's place among those of its host that carry ranks.
int place_on_host(const RankTopology& topology, int device) {
  const auto host_of = [&](int each) {
    return topology.host_of(topology.ranks_on_device(each).front());
  };
  int place = 0;
  for (int other = 0; other < device; ++other) {
    if (host_of(other) == host_of(device)) ++place;
  }
  return place;
}

/// What a rank that asked in vain says instead of clients.
constexpr const char* no_answer = "no answer";

std::string lines_of(const std::vector<pid_t>& clients) {
  std::string text;
  for (const pid_t client : clients) text += fmt::format("{}\n", client);
  return text;
}

/// Collective: the daemon's clients, where this rank is the one of its GPU to ask it. One rank asks
/// for all and one GPU of a host after the other, since a daemon answers one question at a time.
std::string clients_for_others(Communicator& host, const RankTopology& topology) {
  int turns = 0;
  for (int device = 0; device < topology.devices(); ++device) {
    turns = std::max(turns, place_on_host(topology, device) + 1);
  }
  const bool asks = topology.colocated_size() > 1 && topology.colocated_rank() == 0;
  const int mine = place_on_host(topology, topology.device_of(topology.rank()));
  std::string text;
  for (int turn = 0; turn < turns; ++turn) {
    if (asks && turn == mine) {
      const auto clients = MpsControl::of_environment().clients();
      text = clients ? lines_of(*clients) : no_answer;
    }
    if (turns > 1) host.barrier();
  }
  return text;
}

/// A daemon outside of the ranks' container lists their processes by other numbers, none of which
/// is known here; then the driver's word counts.
void believe_drivers(std::span<Attachment> ranks, const RankTopology& topology) {
  for (int device = 0; device < topology.devices(); ++device) {
    const std::vector<int>& here = topology.ranks_on_device(device);
    const auto of = [&](int rank) -> Attachment& { return ranks[static_cast<std::size_t>(rank)]; };
    const bool none = std::ranges::none_of(here, [&](int rank) { return of(rank).attached; });
    const bool all = std::ranges::all_of(here, [&](int rank) { return of(rank).told; });
    if (!none || !all || !of(here.front()).answered) continue;
    for (const int rank : here) of(rank).attached = true;
  }
}

std::vector<Attachment> gather(Communicator& host, const RankTopology& topology,
                               bool driver_says_so) {
  const std::array<std::int64_t, 3> mine{
      ::getpid(), std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr, driver_says_so};
  const std::vector<std::int64_t> facts = all_gather_values(host, mine);
  const std::vector<std::string> clients =
      all_gather_text(host, clients_for_others(host, topology));
  std::vector<Attachment> attachments;
  for (int rank = 0; rank < topology.size(); ++rank) {
    const int leader = topology.ranks_on_device(topology.device_of(rank)).front();
    const auto at = static_cast<std::size_t>(rank) * mine.size();
    const std::string& answer = clients[static_cast<std::size_t>(leader)];
    const std::string line = fmt::format("\n{}\n", facts[at]);
    attachments.push_back({.attached = ("\n" + answer).find(line) != std::string::npos,
                           .told = facts[at + 2] != 0,
                           .answered = answer != no_answer,
                           .meant = facts[at + 1] != 0});
  }
  believe_drivers(attachments, topology);
  return attachments;
}

}  // namespace

bool ranks_run_under_mps(Communicator& host, const RankTopology& topology, bool driver_says_so) {
  const std::vector<Attachment> ranks = gather(host, topology, driver_says_so);
  bool time_sliced = false;
  for (int device = 0; device < topology.devices(); ++device) {
    const std::vector<int>& here = topology.ranks_on_device(device);
    if (here.size() == 1) continue;
    std::vector<int> outside;
    bool meant = false;
    const bool answered = ranks[static_cast<std::size_t>(here.front())].answered;
    for (const int rank : here) {
      const Attachment& each = ranks[static_cast<std::size_t>(rank)];
      if (!each.attached) outside.push_back(rank);
      meant |= each.meant;
    }
    if (outside.empty()) continue;
    const std::string& host_name = topology.host_name(topology.host_of(outside.front()));
    if (meant && !answered) {
      system_error(
          "the MPS daemon of CUDA_MPS_PIPE_DIRECTORY on host {} does not answer, so that nobody "
          "knows whether {} on {} compute under it; start the job anew with `tandem launch`, or "
          "unset CUDA_MPS_PIPE_DIRECTORY to take turns on the GPU",
          host_name, ranks_text(outside), topology.device_name(device));
    }
    if (meant || outside.size() < here.size()) {
      input_error(
          "{} on {} of host {} {} no client of the MPS daemon of CUDA_MPS_PIPE_DIRECTORY; start "
          "the "
          "job with `tandem launch`, or unset CUDA_MPS_PIPE_DIRECTORY to take turns on the GPU",
          ranks_text(outside), topology.device_name(device), host_name,
          outside.size() == 1 ? "is" : "are");
    }
    time_sliced = true;
  }
  if (time_sliced) {
    // Measured: docs/launch.md. Each exchange of gradients waits for a turn of every rank, so that
    // this is far below a share of the GPU.
    log_warning(
        "several ranks share a GPU without MPS: they take turns on it, which is far slower than "
        "one rank alone (measured with four ranks of ResNet-18 at 32 px: over 15 times slower than "
        "one, over 25 times slower than four under MPS); start the job with "
        "`tandem launch --ranks-per-gpu K -- train CONFIG`");
  }
  return topology.colocated_size() > 1 && ranks[static_cast<std::size_t>(topology.rank())].attached;
}

}  // namespace tandem
