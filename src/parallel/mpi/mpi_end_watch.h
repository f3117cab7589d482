#pragma once

#include <atomic>
#include <memory>

namespace tandem {

/// From here to the process's end, for which MPI_Finalize makes all ranks of the job wait: where it
/// does not come, an error line says for whom it was waited, as far as this host shows, and the
/// process ends with code 1, upon which the launcher ends the others. A thread of its own looks at
/// the time, and lives as long as the process. Time in which what started it was stopped does not
/// count.
///
/// A rank that hangs before it comes here tells that itself (base/heartbeat.h), a second earlier.
class MpiEndWatch {
 public:
  /// `timeout_seconds`: what ranks wait for one another; 0: for ever, here too.
  MpiEndWatch(double timeout_seconds, int rank);
  /// What is left is this process's own end.
  void mpi_has_ended() { *mpi_ended_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> mpi_ended_;  // with the thread
};

}  // namespace tandem
