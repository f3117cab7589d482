#include "parallel/mpi/mpi_session.h"

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process_report.h"
#include "parallel/mpi/mpi_end_watch.h"
#include "parallel/mpi/mpi_error.h"
#include "parallel/mpi/mpi_start_watch.h"
#include "parallel/self_communicator.h"

namespace tandem {
namespace {

/// Whoever sets the parameter, for mpirun or in the environment, is left to it.
void prefer(const char* parameter, const char* value) {
  TANDEM_CHECK(setenv(parameter, value, 0) == 0, "no memory for an environment variable");
}

/// Open MPI sums in place by a binomial tree, whose every message is the whole buffer: twice the
/// time of reduce-scatter and all-gather with two ranks, more with more of them.
void prefer_reduce_scatter() {
  constexpr const char* rabenseifner = "3";
  prefer("OMPI_MCA_coll_libnbc_iallreduce_algorithm", rabenseifner);
}

/// Else Open MPI writes a stack of addresses in front of the line that names the rank.
void prefer_no_stack() { prefer("OMPI_MCA_opal_signal", ""); }

const char* read(const char* name) { return std::getenv(name); }

void end_after(std::chrono::seconds time, int code) {
  const BlockedSignals blocked;
  try {
    std::thread([time, code] {
      std::this_thread::sleep_for(time);
      ::_exit(code);
    }).detach();
  } catch (const std::system_error& error) {
    log_debug("{}", error.what());
  }
}

}  // namespace

void check_not_alone(const LaunchedJob& job, int mpi_size) {
  if (mpi_size > 1 || job.size <= 1) return;
  input_error(
      "the launcher started {} processes ({}), but each is alone to this program's MPI ({}) and "
      "would train by itself; use that MPI's own mpirun, or srun --mpi=pmix",
      job.size, job.variable, mpi_library_version());
}

MpiSession::MpiSession(int& argc, char**& argv)
    : distributed_(started_by_mpi(read)), exceptions_(std::uncaught_exceptions()) {
  if (!distributed_) return;
  prefer_reduce_scatter();
  prefer_no_stack();
  int provided = MPI_THREAD_SINGLE;
  {
    const LaunchedJob job = read_launched_job(read);
    set_process_rank(job.rank);  // for messages until MPI tells it
    const MpiStartWatch watch(mpi_start_seconds(read), job);
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  set_process_rank(rank);
  refuse_strangers();
  TANDEM_CHECK(provided >= MPI_THREAD_FUNNELED, "this MPI library does not support threads");
}

void MpiSession::refuse_strangers() {
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const LaunchedJob job = read_launched_job(read);
  try {
    check_not_alone(job, size);
  } catch (const InputError&) {
    set_process_rank(job.rank);  // one of them speaks first
    check_mpi(MPI_Finalize(), "MPI_Finalize");
    throw;
  }
}

MpiSession::~MpiSession() {
  if (!distributed_ || std::uncaught_exceptions() > exceptions_) return;
  MpiEndWatch watch(timeout_seconds_, process_rank());
  if (MPI_Finalize() != MPI_SUCCESS) log_error("MPI_Finalize failed");
  watch.mpi_has_ended();
}

std::unique_ptr<Communicator> MpiSession::make_world(const MpiOptions& options) const {
  timeout_seconds_ = options.timeout_seconds;
  own_report().set_timeout(timeout_seconds_);
  if (distributed_) {
    MpiOptions all = options;
    all.meeting_seconds = meeting_patience(options.meeting_seconds, read);
    return std::make_unique<MpiCommunicator>(all);
  }
  return std::make_unique<SelfCommunicator>(timeout_seconds_);
}

void MpiSession::abort(int code) const {
  if (!distributed_) return;
  // MPI may hang itself where its memory is broken, or a host or mpirun is gone.
  end_after(std::chrono::seconds(3), code);
  // As fatal as SIGKILL, if no thread can be started or the kernel keeps this one.
  constexpr unsigned longest = 5;
  static_cast<void>(std::signal(SIGALRM, SIG_DFL));
  static_cast<void>(::alarm(longest));
  if (MPI_Abort(MPI_COMM_WORLD, code) != MPI_SUCCESS) log_error("MPI_Abort failed");
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace tandem
