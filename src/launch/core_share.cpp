#include "launch/core_share.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

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

bool meet(const CpuSet& a, const CpuSet& b) {
  return std::ranges::any_of(a, [&](int cpu) { return b.contains(cpu); });
}

/// What slot `at` of `count` gets of the cores.
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
  std::map<CpuSet, std::vector<std::size_t>> groups;
  for (std::size_t process = 0; process < near.size(); ++process) {
    groups[near[process]].push_back(process);
  }
  std::vector<CpuSet> shares(near.size());
  for (const auto& [place, processes] : groups) {
    std::vector<const CpuSet*> here;
    for (const CpuSet& core : cores) {
      if (place.empty() || meet(core, place)) here.push_back(&core);
    }
    if (here.empty()) {  // this process may use no core near the device
      for (const CpuSet& core : cores) here.push_back(&core);
    }
    for (std::size_t at = 0; at < processes.size(); ++at) {
      shares[processes[at]] = block(here, at, processes.size());
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
