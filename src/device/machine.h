#pragma once

#include <cstdint>
#include <string>

namespace tandem {

/// What this host's processor offers, read with hwloc.
struct Machine {
  std::string hostname;
  std::string cpu_model;
  int cores = 1;        ///< physical cores that the operating system lets anyone use
  int bound_cores = 1;  ///< physical cores that this process may run on (its affinity)
  int numa_nodes = 1;
  std::uint64_t memory_bytes = 0;
};

/// Reads the machine that this process runs on. Costs some milliseconds; call it once.
Machine read_machine();

/// Compute threads for one of `colocated` Tandem processes of this host: its share of the cores,
/// but no more than it is bound to, and at least one. Two ranks on two cores get one thread each.
int default_threads(const Machine& machine, int colocated);

}  // namespace tandem
