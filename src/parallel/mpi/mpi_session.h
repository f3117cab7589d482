#pragma once

#include <memory>
#include <string>

#include "parallel/communicator.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/placement/launched_job.h"

namespace tandem {

/// Throws InputError where the launcher started several processes and MPI, whose world has
/// `mpi_size` ranks, sees this one alone: a launcher of another MPI, whose ranks would each train
/// by themselves and write the same folder.
void check_not_alone(const LaunchedJob& job, int mpi_size);

/// Holds MPI for as long as it lives. main() makes one, before anything that communicates.
///
/// A process that no MPI launcher started is a job of its own: MPI is not initialised at all, which
/// costs nothing and works where mpirun is absent.
class MpiSession {
 public:
  /// Initialises MPI (only the thread that constructs may communicate) where this process was
  /// started by MPI; MPI takes its own arguments out of argc and argv, failures become Error, and
  /// messages carry the rank from here on. Throws InputError as check_not_alone() and
  /// mpi_start_seconds() do; where ranks do not come, the process ends
  /// (parallel/mpi/mpi_start_watch.h).
  MpiSession(int& argc, char**& argv);
  /// Of a process that is no rank, whatever started it: a job of its own.
  MpiSession() : distributed_(false), exceptions_(0) {}
  /// Ends MPI, which waits for the other ranks, but not for ever (mpi_end_watch.h). Where it runs
  /// because an exception unwinds this rank, it does not: the others may be waiting for this one.
  /// The process must then end with a code other than 0, upon which the launcher ends the others.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// True where MPI runs, be it with one rank.
  bool distributed() const { return distributed_; }

  /// The communicator of the whole job: Mpi, or Self where MPI does not run. Collective. It must be
  /// destroyed before the session.
  std::unique_ptr<Communicator> make_world(const MpiOptions& options = {}) const;

  /// For how long the other ranks of the world made last wait for a sign of life of this one; 0:
  /// for ever.
  double timeout_seconds() const { return timeout_seconds_; }

  /// Ends all processes of the job at once; the launcher exits with `code` (not 0). Call it when an
  /// error that the other ranks do not share reaches main(). Does not return where MPI runs;
  /// returns where it does not, for there is then nobody else to end and main() returns the code
  /// itself.
  void abort(int code) const;

 private:
  /// Ends MPI and throws where check_not_alone() does.
  static void refuse_strangers();

  bool distributed_;
  int exceptions_;
  mutable double timeout_seconds_ = 0.0;  // no world yet: nobody waits for this rank
};

/// The MPI library that this program is linked to, in its own words (one line).
std::string mpi_library_version();

}  // namespace tandem
