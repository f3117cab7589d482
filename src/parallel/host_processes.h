#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/mapped/shared_segment.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

/// The processes of the other ranks of this host, as their ends show at once, where signs of life
/// show them only after a time-out. A process that was killed or crashed says nothing of it itself:
/// one of the host's other ranks does.
///
/// Ends that are explained already are not told: of a rank that destroyed this object (at the
/// run's end, or because an error of its own unwinds it) or explained its end (explain_own_end()),
/// and of one whose parent watches it (base/process_report.h). Where the kernel gives no file
/// descriptors of processes (Linux before 5.3), and for ranks in other PID namespaces, nothing is
/// seen.
class HostProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  /// Collective over `world`, a host kind. At most one at a time in a process. Throws InputError on
  /// all ranks where a host has no shared memory.
  HostProcesses(Communicator& world, const RankTopology& topology);
  ~HostProcesses();
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  /// What this rank is waiting for; empty where it does not wait. Called where it is to be told.
  using Waited = std::function<std::string()>;

  /// Looks where the last look is 20 ms ago. Throws RankEnded that names the ranks that ended
  /// unexplained: on one rank of the host at once, on its others only where that one does not end
  /// the job within seconds.
  void check(Clock::time_point now, const Waited& waited) {
    if (now - looked_ < interval) return;
    looked_ = now;
    require_alive(waited);
  }
  /// The same at once, and repeatedly for up to `patience`, until one has ended.
  void require_alive(const Waited& waited, std::chrono::duration<double> patience = {});

 private:
  static constexpr std::chrono::milliseconds interval{20};

  /// Of those that are told; others that ended are looked at no more.
  std::vector<int> ended_ranks();
  std::int32_t& word(int index) const;
  /// True on the one rank of the host that is to speak.
  bool claim_speech() const;

  SharedSegment words_;  ///< whether a rank speaks already; by local rank, whether its end is known
  int own_word_;
  std::string host_;
  std::vector<pollfd> descriptors_;  ///< of the others' processes
  std::vector<int> ranks_;           ///< whose each is
  std::vector<int> indices_;         ///< and its word
  Clock::time_point looked_{};
  int exceptions_;
};

/// How long a rank that has met a device's fault looks for one that was killed, whose memory, which
/// others may have mapped, can be gone before its end is seen, and whose end tells more. Short
/// enough that those who wait for this rank no longer than `timeout_seconds` (0: for ever) hear of
/// the fault in time.
std::chrono::duration<double> killed_rank_patience(double timeout_seconds);

/// Whatever ends this process from here on, others have nothing to tell: it was told to end, or has
/// said itself why it must. A signal's handler may call it.
void explain_own_end() noexcept;

}  // namespace tandem
