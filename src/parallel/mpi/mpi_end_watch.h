#pragma once

#include <atomic>
#include <memory>

namespace tandem {

/// Looks at the time in which MPI_Finalize waits for all ranks of the job: where one does not come
/// to it, an error line of one rank a host says which, as far as that host shows, and the process
/// ends with code 1, upon which the launcher ends the others. Time in which what started it was
/// stopped does not count.
///
/// A rank that hangs before it comes here tells that itself, earlier (base/heartbeat.h).
class MpiEndWatch {
 public:
  /// `timeout_seconds`: what ranks wait for one another; 0: for ever, here too.
  MpiEndWatch(double timeout_seconds, int rank);
  /// MPI_Finalize has returned: what is left, such as a profiler's writing, may take its time.
  void mpi_has_ended() { *mpi_ended_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> mpi_ended_;  // with the thread
};

}  // namespace tandem
