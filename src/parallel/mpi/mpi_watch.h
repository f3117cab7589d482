#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/device_patience.h"
#include "parallel/host_processes.h"

namespace tandem {

/// Waits for MPI requests, but not for ever: a rank that hangs must not leave the others waiting.
///
/// A rank that waits long, or works long at something that the others wait for, sends every rank a
/// sign of life now and then. Signs of work start the time-outs of those who wait anew; signs of
/// waiting do not, they only tell afterwards who is still there. A stopped process sends neither.
/// Who waits for its own device alone is at work, until it has waited too long: then it says so
/// itself, whatever the others are at.
/// Where every wait is short nothing is sent.
///
/// A rank of this host whose process ended is found out at once, where there is a watch on those:
/// whatever waits then throws RankEnded, and so does still_working().
class MpiWatch {
 public:
  /// Collective. `timeout_seconds` 0: waits for ever, here too; else here for `meeting_seconds` if
  /// that is longer. Throws CommunicationTimeout where not all ranks come.
  MpiWatch(double timeout_seconds, double meeting_seconds);
  ~MpiWatch();
  MpiWatch(const MpiWatch&) = delete;
  MpiWatch& operator=(const MpiWatch&) = delete;
  /// Frees the communicator, which is collective.
  void free();

  /// Looks at these from now on too.
  void watch(std::unique_ptr<HostProcesses> processes) { processes_ = std::move(processes); }
  bool watches_processes() const { return processes_ != nullptr; }
  /// As Communicator::count_operations().
  void count_operations(std::function<std::uint32_t()> begun);

  /// Returns once all requests are done. Throws CommunicationTimeout that names `operation`, its
  /// `label` where it has one, its `elements` and the silent ranks. `statuses`: as many as
  /// requests, or MPI_STATUSES_IGNORE.
  void wait(std::span<MPI_Request> requests, std::string_view operation, std::int64_t elements,
            std::string_view label = {}, MPI_Status* statuses = MPI_STATUSES_IGNORE);
  /// As Communicator::wait_until(). A rank that is alone waits for its own device, and longer
  /// (parallel/device_patience.h).
  void wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                  Awaited awaited);
  /// Sends a sign of work where the others have heard nothing of this rank, be it that it took part
  /// in an operation, for a quarter of the time-out.
  void still_working();

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  /// The tags of the messages. Such as a program around this one hardly has: until all have met
  /// they go through MPI's world. (tests/parallel/failing_rank.cpp sends some.)
  /// Of ranks whose devices hang, one that had heard of no other is `hung` and may speak for all.
  enum Sign : int { waiting = 29'417, working = 29'418, hung = 29'419, hung_too = 29'420 };

  /// Duplicates MPI's world, through which the signs of life go till then.
  void meet(Seconds patience);
  /// Asks `done()`, whose failure may be the consequence of another process's end.
  template <typename Done, typename What>
  bool ask(const Done& done, const What& what) const;
  template <typename Done, typename What>
  void poll(const Done& done, const What& what, Seconds limit, Awaited awaited = Awaited::ranks);
  void send(Sign sign);
  /// Takes what has arrived; true where another sign than one of waiting was among it.
  bool receive();
  [[noreturn]] void fail(std::string_view what, Seconds waited) const;
  /// The same of a wait for this rank's own device.
  [[noreturn]] void fail_by_own_device(std::string_view what, Seconds waited);
  std::vector<int> silent_ranks() const;
  /// Those whose devices have begun the fewest operations, by their last signs; none where all have
  /// begun as many, one does not tell, or one has begun some between its last two signs: then
  /// counts of different moments would be compared.
  std::vector<int> ranks_behind() const;
  /// Returns at once on the rank that is to speak for all that are at a loss, else only where it
  /// has not ended the job.
  void leave_speech_to(int speaker) const;

  Seconds timeout_;
  DevicePatience patience_;
  std::unique_ptr<HostProcesses> processes_;  // null: nobody looks at them
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  Clock::time_point last_sign_;            // or took part in an operation, which is a sign too
  std::vector<Clock::time_point> heard_;   // by rank
  std::vector<std::optional<Sign>> hung_;  // by rank; how it said that its device hangs
  std::vector<MPI_Request> sends_;         // by rank; the last sign, which may still be under way
  std::function<std::uint32_t()> begun_;   // empty: this rank counts no operations
  std::uint32_t told_of_ = 0;              // with the last signs
  std::vector<std::uint32_t> told_;  // by rank, with the last sign to it, which MPI reads there
  /// What a rank's last sign told, and whether the one before told the same.
  struct Begun {
    std::uint32_t count;
    bool again;
  };
  std::vector<std::optional<Begun>> begun_there_;  // by rank; nothing: it does not tell
};

}  // namespace tandem
