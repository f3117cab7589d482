#pragma once

#include <string>
#include <string_view>

namespace tandem {

/// How several ranks share one device.
enum class Colocation {
  processes,  ///< a process each, on a GPU under MPS
  folded      ///< one process computes all of them
};

/// "processes" or "folded".
std::string_view name_of(Colocation colocation);

/// How the ranks of a run lie on its devices: every GPU, or every host whose CPU computes, carries
/// the same.
struct Placement {
  int ranks_per_device = 1;
  /// Of a single rank always processes.
  Colocation colocation = Colocation::processes;
  /// The share of a GPU's multiprocessors that each process may use at most, in percent; 0: no
  /// limit. Of several processes on a GPU alone.
  int sm_percent = 0;

  bool operator==(const Placement&) const = default;
};

/// "one rank", "4 folded", "4 processes" or "4 processes of 50 %".
std::string text_of(const Placement& placement);

}  // namespace tandem
