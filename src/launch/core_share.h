#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Logical CPUs by the operating system's numbers.
using CpuSet = std::set<int>;

/// "0-3,8" as /sys and taskset write it.
CpuSet parse_cpu_list(std::string_view text);
std::string cpu_list_text(const CpuSet& cpus);

/// The physical cores that this process may use, neighbours beside each other: of each, its logical
/// CPUs. Read with hwloc.
std::vector<CpuSet> usable_cores();

/// The CPUs on the NUMA node that a PCI device hangs on ("0000:3b:00.0"); empty where the system
/// does not say. `root`: where sys is.
CpuSet cpus_near(const std::string& bus_id, const std::filesystem::path& root = "/");

/// Deals a host's cores to its processes, whose devices' near CPUs are given in the processes'
/// order: processes with the same near CPUs, or some in common, share the cores there, in
/// contiguous blocks. Those with none that may be used (the set is empty, or no core of it is the
/// job's) share what the others leave. Where that, or what is near, is less than a core for each,
/// while there are others, all processes share all cores, in the order of what is near them. So no
/// core is two processes' while another is nobody's; where there are fewer than processes, each of
/// those that share some gets all of these.
std::vector<CpuSet> share_cores(const std::vector<CpuSet>& cores, const std::vector<CpuSet>& near);

/// Binds this process, before it starts threads, to the CPUs. Throws SystemError where the system
/// refuses.
void bind_to(const CpuSet& cpus);

}  // namespace tandem
