#pragma once

#include <map>
#include <string>
#include <vector>

namespace tandem {

/// How far the ranks of one host are on their way to somewhere: a rank has come there once its
/// process has a thread of a certain name.
struct RanksOnHost {
  std::vector<int> waiting{};  ///< there, for others
  std::vector<int> stopped{};  ///< by a signal, wherever they are
  std::vector<int> coming{};   ///< not there yet
  /// By rank, the UUID of the one GPU that it was started for; empty or missing where there is
  /// none, or that is not known.
  std::map<int, std::string> gpus{};
  /// Whether some of this host hold up all.
  bool hold_up() const { return !stopped.empty() || !coming.empty(); }
};

/// Those of the job of that name, as PMIx has it; empty: none are found.
RanksOnHost ranks_on_host(const std::string& job, const char* thread);

/// "rank 2 on node-a, GPU-b, which is stopped, and for ranks 0 and 1 on node-a, GPU-a, which have
/// not come to it": whom those that are there wait for; empty: nobody of this host.
std::string whom_text(const RanksOnHost& ranks, const std::string& host);

}  // namespace tandem
