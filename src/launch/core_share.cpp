#include "launch/core_share.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace tandem {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};

CpuSet cpus_of(hwloc_const_bitmap_t bitmap) {
  CpuSet cpus;
  for (int cpu = -1; (cpu = hwloc_bitmap_next(bitmap, cpu)) >= 0;) cpus.insert(cpu);
  return cpus;
}

template <typename Number>
bool meet(const std::set<Number>& a, const std::set<Number>& b) {
  return std::ranges::any_of(a, [&](Number each) { return b.contains(each); });
}

/// Cores, by their places in a host's list of them.
using Places = std::set<std::size_t>;

/// Processes that deal cores among themselves.
struct Group {
  Places cores{};
  std::vector<std::size_t> processes{};

  bool short_of_cores() const { return processes.size() > cores.size(); }
};

/// The cores near a process's device.
Places places_near(const std::vector<CpuSet>& cores, const CpuSet& near) {
  Places places;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    if (meet(cores[core], near)) places.insert(core);
  }
  return places;
}

/// Processes whose devices have cores near several of them are in one group, with all that is near
/// any of these.
std::vector<Group> groups_of_neighbours(const std::vector<Places>& near) {
  std::vector<Group> groups;
  for (std::size_t process = 0; process < near.size(); ++process) {
    if (near[process].empty()) continue;
    Group merged{.cores = near[process], .processes = {process}};
    std::erase_if(groups, [&](const Group& group) {
      if (!meet(group.cores, near[process])) return false;
      merged.cores.insert(group.cores.begin(), group.cores.end());
      merged.processes.insert(merged.processes.end(), group.processes.begin(),
                              group.processes.end());
      return true;
    });
    groups.push_back(std::move(merged));
  }
  return groups;
}

/// The processes whose devices have no core nearby, with the cores that the groups leave.
Group rest_of(const std::vector<Group>& groups, const std::vector<Places>& near,
              std::size_t cores) {
  Group rest;
  for (std::size_t process = 0; process < near.size(); ++process) {
    if (near[process].empty()) rest.processes.push_back(process);
  }
  for (std::size_t core = 0; core < cores; ++core) {
    const bool taken =
        std::ranges::any_of(groups, [&](const Group& group) { return group.cores.contains(core); });
    if (!taken) rest.cores.insert(core);
  }
  return rest;
}

/// Whether a group's processes would have to share cores although there are others: where all
/// processes can have one of their own, or the groups leave some.
bool shares_needlessly(const std::vector<Group>& groups, std::size_t processes, std::size_t cores) {
  std::size_t dealt = 0;
  for (const Group& group : groups) dealt += group.cores.size();
  return std::ranges::any_of(groups, &Group::short_of_cores) &&
         (processes <= cores || dealt < cores);
}

std::vector<Group> dealing_groups(const std::vector<Places>& near, std::size_t cores) {
  std::vector<Group> groups = groups_of_neighbours(near);
  Group rest = rest_of(groups, near, cores);
  bool at_odds = rest.short_of_cores();
  if (!rest.processes.empty()) groups.push_back(std::move(rest));
  at_odds |= shares_needlessly(groups, near.size(), cores);
  if (!at_odds) return groups;
  Group all;
  for (std::size_t core = 0; core < cores; ++core) all.cores.insert(core);
  for (std::size_t process = 0; process < near.size(); ++process) all.processes.push_back(process);
  return {all};
}

/// Has the processes of a group in the order of the cores near them, those without any last, so
/// that blocks of the group's cores mostly come to lie there.
void order_by_place(Group& group, const std::vector<Places>& near) {
  const auto place = [&](std::size_t process) {
    const Places& cores = near[process];
    const std::size_t nowhere = std::numeric_limits<std::size_t>::max();
    return cores.empty() ? std::tuple(nowhere, nowhere, process)
                         : std::tuple(*cores.begin(), *cores.rbegin(), process);
  };
  std::ranges::sort(group.processes, {}, place);
}

/// What process `at` of `count` gets of the cores.
CpuSet block(const std::vector<const CpuSet*>& cores, std::size_t at, std::size_t count) {
  CpuSet share;
  const bool enough = cores.size() >= count;
  const std::size_t first = enough ? at * cores.size() / count : 0;
  const std::size_t last = enough ? (at + 1) * cores.size() / count : cores.size();
  for (std::size_t core = first; core < last; ++core) {
    share.insert(cores[core]->begin(), cores[core]->end());
  }
  return share;
}

}  // namespace

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
  std::istringstream ranges{std::string(text)};
  for (std::string range; std::getline(ranges, range, ',');) {
    while (!range.empty() && std::isspace(static_cast<unsigned char>(range.back())) != 0) {
      range.pop_back();
    }
    const std::size_t dash = range.find('-');
    const auto first = parse_number<int>(std::string_view(range).substr(0, dash));
    const auto last = dash == std::string::npos
                          ? first
                          : parse_number<int>(std::string_view(range).substr(dash + 1));
    if (!first || !last) return {};
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string cpu_list_text(const CpuSet& cpus) {
  std::string text;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = *at;
    int last = first;
    while (++at != cpus.end() && *at == last + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::vector<CpuSet> usable_cores() {
  hwloc_topology_t raw = nullptr;
  TANDEM_CHECK(hwloc_topology_init(&raw) == 0, "hwloc cannot start");
  const std::unique_ptr<hwloc_topology, TopologyDeleter> topology(raw);
  TANDEM_CHECK(hwloc_topology_load(raw) == 0, "hwloc cannot read this machine");
  const std::unique_ptr<hwloc_bitmap_s, BitmapDeleter> bound(hwloc_bitmap_alloc());
  const bool known = hwloc_get_cpubind(raw, bound.get(), HWLOC_CPUBIND_PROCESS) == 0;
  std::vector<CpuSet> cores;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core)) != nullptr;) {
    const std::unique_ptr<hwloc_bitmap_s, BitmapDeleter> usable(hwloc_bitmap_dup(core->cpuset));
    if (known) hwloc_bitmap_and(usable.get(), usable.get(), bound.get());
    if (hwloc_bitmap_iszero(usable.get()) == 0) cores.push_back(cpus_of(usable.get()));
  }
  return cores;
}

CpuSet cpus_near(const std::string& bus_id, const std::filesystem::path& root) {
  if (bus_id.empty()) return {};
  std::ifstream file(root / "sys/bus/pci/devices" / bus_id / "local_cpulist");
  std::string line;
  std::getline(file, line);
  return parse_cpu_list(line);
}

std::vector<CpuSet> share_cores(const std::vector<CpuSet>& cores, const std::vector<CpuSet>& near) {
  std::vector<Places> places;
  places.reserve(near.size());
  for (const CpuSet& cpus : near) places.push_back(places_near(cores, cpus));
  std::vector<CpuSet> shares(near.size());
  for (Group& group : dealing_groups(places, cores.size())) {
    order_by_place(group, places);
    std::vector<const CpuSet*> here;
    for (const std::size_t core : group.cores) here.push_back(&cores[core]);
    for (std::size_t at = 0; at < group.processes.size(); ++at) {
      shares[group.processes[at]] = block(here, at, group.processes.size());
    }
  }
  return shares;
}

void bind_to(const CpuSet& cpus) {
  if (cpus.empty()) return;
  const int count = *cpus.rbegin() + 1;
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
  cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(count));
  TANDEM_CHECK(set != nullptr, "no memory for a set of {} CPUs", count);
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  const int code = ::sched_setaffinity(0, bytes, set) == 0 ? 0 : errno;
  CPU_FREE(set);
  if (code != 0) {
    system_error("this process cannot be bound to the CPUs {}: {}", cpu_list_text(cpus),
                 std::strerror(code));
  }
}

}  // namespace tandem
