#include "parallel/device_choice.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

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

[[noreturn]] void no_device_left(const RankTopology& topology, int rank,
                                 const std::vector<Uuids>& visible,
                                 const std::vector<std::string>& problems) {
  const int host = topology.host_of(rank);
  const std::vector<int>& ranks = topology.ranks_on_host(host);
  std::set<std::string> seen;
  for (const int other : ranks) {
    const Uuids& theirs = visible[static_cast<std::size_t>(other)];
    seen.insert(theirs.begin(), theirs.end());
  }
  const std::size_t own = visible[static_cast<std::size_t>(rank)].size();
  const char* see = ranks.size() == 1 ? "sees" : "see";
  const std::string& problem = problems[static_cast<std::size_t>(rank)];
  if (own == 0 && !problem.empty()) {
    input_error("rank {} on host {} can use no GPU: {}, or set train.device = \"cpu\"", rank,
                topology.host_name(host), problem);
  }
  if (own == 0 || seen.empty()) {
    input_error(
        "rank {} on host {} sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES there, or set "
        "train.device = \"cpu\"",
        rank, topology.host_name(host));
  }
  input_error(
      "host {}: {} rank{} {} {} GPU{}, so that none is left for rank {}; start one rank per GPU "
      "(mpirun -n {})",
      topology.host_name(host), ranks.size(), ranks.size() == 1 ? "" : "s", see, seen.size(),
      seen.size() == 1 ? "" : "s", rank, seen.size() * static_cast<std::size_t>(topology.hosts()));
}

/// Who has which text, and on which host; empty where all have the same.
std::string differences(Communicator& host, const std::string& mine) {
  const std::vector<std::string> texts = all_gather_text(host, mine);
  if (std::ranges::adjacent_find(texts, std::not_equal_to<>()) == texts.end()) return {};
  const RankTopology topology = RankTopology::gather(host);
  std::vector<std::string> hosts;
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
    std::set<std::string> taken;
    for (const int rank : topology.ranks_on_host(at)) {
      const Uuids& theirs = all[static_cast<std::size_t>(rank)];
      const auto free = std::ranges::find_if(
          theirs, [&](const std::string& uuid) { return taken.insert(uuid).second; });
      if (free == theirs.end()) no_device_left(topology, rank, all, problems);
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
