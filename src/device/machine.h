#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace tandem {

/// What this host's processor offers, read with hwloc.
struct Machine {
  std::string hostname;
  std::string cpu_model;
  int cores = 1;        ///< physical cores that the operating system lets anyone use
  int bound_cores = 1;  ///< physical cores that this process may run on (its affinity)
  /// CPUs' worth of time that control groups leave this process (docker --cpus), rounded up; with
  /// the other processes of its group. 0: no limit.
  int quota_cores = 0;
  int numa_nodes = 1;
  std::uint64_t memory_bytes = 0;

  /// What processes here can keep busy together: the cores, or what the quota leaves of them.
  int usable_cores() const { return quota_cores > 0 ? std::min(cores, quota_cores) : cores; }
};

/// Reads the machine that this process runs on. Costs some milliseconds; call it once.
Machine read_machine();

/// Compute threads for one of `colocated` Tandem processes of this host: its share of the usable
/// cores, but no more than it is bound to, and at least one. Two ranks on two cores get one thread
/// each.
int default_threads(const Machine& machine, int colocated);

}  // namespace tandem
