#include "parallel/placement/device_choice.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

// No UUID holds one.
constexpr char separator = '\n';

using Uuids = std::vector<std::string>;

Uuids unpack(std::string_view text) {
  Uuids uuids;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    uuids.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return uuids;
}

/// What every rank sees.
std::vector<Uuids> gather_visible(Communicator& host, std::span<const std::string> visible) {
  std::string mine;
  for (const std::string& uuid : visible) mine += uuid + separator;
  std::vector<Uuids> all;
  for (const std::string& text : all_gather_text(host, mine)) all.push_back(unpack(text));
  return all;
}

/// The GPUs that any rank of the host sees.
std::set<std::string> seen_on(const RankTopology& topology, int host,
                              const std::vector<Uuids>& visible) {
  std::set<std::string> seen;
  for (const int rank : topology.ranks_on_host(host)) {
    const Uuids& theirs = visible[static_cast<std::size_t>(rank)];
    seen.insert(theirs.begin(), theirs.end());
  }
  return seen;
}

[[noreturn]] void no_device_left(const RankTopology& topology, int rank,
                                 const std::vector<Uuids>& visible,
                                 const std::vector<std::string>& problems) {
  const int host = topology.host_of(rank);
  const bool blind = visible[static_cast<std::size_t>(rank)].empty();
  const std::string& problem = problems[static_cast<std::size_t>(rank)];
  if (blind && !problem.empty()) {
    input_error("rank {} on host {} can use no GPU: {}, or set train.device = \"cpu\"", rank,
                topology.host_name(host), problem);
  }
  if (blind) {
    input_error(
        "rank {} on host {} sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES there, or set "
        "train.device = \"cpu\"",
        rank, topology.host_name(host));
  }
  input_error(
      "host {}: rank {} may use {} alone, taken by earlier ranks; let it see another GPU "
      "(CUDA_VISIBLE_DEVICES), or let the ranks of a host all see the same ones",
      topology.host_name(host), rank, join(visible[static_cast<std::size_t>(rank)], " and "));
}

/// How many of a host's ranks take each of its GPUs.
std::size_t ranks_per_gpu(const RankTopology& topology, int host, std::size_t gpus) {
  const std::size_t ranks = topology.ranks_on_host(host).size();
  if (ranks <= gpus) return 1;
  if (ranks % gpus == 0) return ranks / gpus;
  input_error("host {}: {} ranks cannot be dealt evenly to its {} GPUs; start {} or {} ranks there",
              topology.host_name(host), ranks, gpus, ranks / gpus * gpus,
              (ranks / gpus + 1) * gpus);
}

/// Who has which text, and on which host; empty where all have the same.
std::string differences(Communicator& host, const std::string& mine) {
  const std::vector<std::string> texts = all_gather_text(host, mine);
  if (std::ranges::adjacent_find(texts, std::not_equal_to<>()) == texts.end()) return {};
  const RankTopology topology = RankTopology::gather(host);
  std::vector<std::string> hosts;
  hosts.reserve(static_cast<std::size_t>(topology.size()));
  for (int rank = 0; rank < topology.size(); ++rank) {
    hosts.push_back(topology.host_name(topology.host_of(rank)));
  }
  return who_has_what(texts, hosts);
}

}  // namespace

int choose_device(Communicator& host, std::span<const std::string> visible,
                  std::string_view problem) {
  const RankTopology topology = RankTopology::gather(host);
  const std::vector<Uuids> all = gather_visible(host, visible);
  const std::vector<std::string> problems = all_gather_text(host, problem);
  int mine = -1;
  for (int at = 0; at < topology.hosts(); ++at) {
    const std::size_t gpus = seen_on(topology, at, all).size();
    std::map<std::string, std::size_t> taken;
    for (const int rank : topology.ranks_on_host(at)) {
      const Uuids& theirs = all[static_cast<std::size_t>(rank)];
      if (theirs.empty()) no_device_left(topology, rank, all, problems);
      const std::size_t most = ranks_per_gpu(topology, at, gpus);
      const auto free =
          std::ranges::find_if(theirs, [&](const std::string& uuid) { return taken[uuid] < most; });
      if (free == theirs.end()) no_device_left(topology, rank, all, problems);
      ++taken[*free];
      if (rank == host.rank()) mine = static_cast<int>(free - theirs.begin());
    }
  }
  return mine;
}

void check_one_rank_per_device(const RankTopology& topology) {
  for (int device = 0; device < topology.devices(); ++device) {
    const std::vector<int>& ranks = topology.ranks_on_device(device);
    if (ranks.size() == 1) continue;
    input_error("{} share {}; start one rank per GPU (mpirun -n {})", ranks_text(ranks),
                topology.device_name(device), topology.devices());
  }
}

void check_one_instance_per_card(Communicator& host, const RankTopology& topology,
                                 const std::string& card) {
  const std::vector<std::string> cards = all_gather_text(host, card);
  std::map<std::pair<int, std::string>, int> first;  // the rank of a host's card
  for (int rank = 0; rank < topology.size(); ++rank) {
    const std::string& here = cards[static_cast<std::size_t>(rank)];
    if (here.empty()) continue;
    const auto [other, is_first] = first.try_emplace({topology.host_of(rank), here}, rank);
    if (is_first || topology.device_of(other->second) == topology.device_of(rank)) continue;
    input_error(
        "ranks {} and {} compute on MIG instances of one card ({} of {}), between which NCCL "
        "passes nothing; "
        "give the job one instance of each card (--gpus, CUDA_VISIBLE_DEVICES), or ranks that "
        "share one instance",
        other->second, rank, here, topology.host_name(topology.host_of(rank)));
  }
}

void check_same_facts(Communicator& host, std::span<const DeviceFact> facts) {
  for (const DeviceFact& fact : facts) {
    const std::string different = differences(host, fact.value);
    if (different.empty()) continue;
    input_error("the ranks differ in {}: {}; {}", fact.name, different, fact.remedy);
  }
}

std::string mixed_models(Communicator& host, const std::string& model) {
  const std::string different = differences(host, model);
  if (different.empty()) return {};
  return fmt::format("the ranks' GPUs differ: {}; the slowest sets the pace", different);
}

}  // namespace tandem
