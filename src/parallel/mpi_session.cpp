#include "parallel/mpi_session.h"

#include <mpi.h>

#include <array>
#include <cstdlib>
#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "parallel/mpi_error.h"
#include "parallel/self_communicator.h"

namespace tandem {
namespace {

/// Open MPI sums in place by a binomial tree, whose every message is the whole buffer: twice the
/// time of reduce-scatter and all-gather with two ranks, more with more of them. Whoever sets the
/// parameter, for mpirun or in the environment, is left to it.
void prefer_reduce_scatter() {
  constexpr const char* rabenseifner = "3";
  TANDEM_CHECK(setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", rabenseifner, 0) == 0,
               "no memory for an environment variable");
}

}  // namespace

bool started_by_mpi(const ReadEnvironment& environment) {
  // Open MPI's mpirun; MPICH's, Intel's and Slurm's PMI; PMIx (prterun, Slurm); MPICH's hydra.
  constexpr std::array marks{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                             "MPI_LOCALNRANKS"};
  for (const char* mark : marks) {
    if (environment(mark) != nullptr) return true;
  }
  const char* tasks = environment("SLURM_STEP_NUM_TASKS");
  if (environment("SLURM_STEP_ID") != nullptr && tasks != nullptr && std::atoi(tasks) > 1) {
    input_error(
        "srun started {} tasks without MPI, so that each would train alone; add --mpi=pmix (or "
        "another kind that `srun --mpi=list` shows), or use -n 1",
        tasks);
  }
  return false;
}

MpiSession::MpiSession(int& argc, char**& argv)
    : distributed_(started_by_mpi([](const char* name) { return std::getenv(name); })),
      exceptions_(std::uncaught_exceptions()) {
  if (!distributed_) return;
  prefer_reduce_scatter();
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  set_process_rank(rank);
  TANDEM_CHECK(provided >= MPI_THREAD_FUNNELED, "this MPI library does not support threads");
}

MpiSession::~MpiSession() {
  if (!distributed_ || std::uncaught_exceptions() > exceptions_) return;
  if (MPI_Finalize() != MPI_SUCCESS) log_error("MPI_Finalize failed");
}

std::unique_ptr<Communicator> MpiSession::make_world(const MpiOptions& options) const {
  if (distributed_) return std::make_unique<MpiCommunicator>(options);
  return std::make_unique<SelfCommunicator>();
}

void MpiSession::abort(int code) const {
  if (!distributed_) return;
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
