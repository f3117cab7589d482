#pragma once

#include <functional>
#include <optional>
#include <string>

namespace tandem {

/// Reads one environment variable; nullptr where it is not set.
using ReadEnvironment = std::function<const char*(const char*)>;

/// The number that a variable wholly is; nothing where it is not set or none.
std::optional<int> environment_number(const ReadEnvironment& environment, const char* name);

/// Whether an MPI launcher (mpirun, mpiexec, srun with PMI or PMIx) started this process, read from
/// the environment that launchers leave. Throws InputError where srun started several tasks without
/// MPI support: each would believe that it is alone.
bool started_by_mpi(const ReadEnvironment& environment);

/// What a launcher's environment says of the job that it started this process in.
struct LaunchedJob {
  int size = 1;
  int rank = 0;
  std::string variable{};  ///< that gave the size; empty where none does
};

/// Whether this process may start a job of its own: no launcher started it, or one that started it
/// alone, as the shell of `srun --pty bash`. Open MPI's mpirun starts none within another, however
/// few processes that has. Throws as started_by_mpi().
bool may_launch(const ReadEnvironment& environment);

/// The nearest launcher's word on how many processes it started together. Of a launcher that says
/// nothing, a job of one process.
LaunchedJob read_launched_job(const ReadEnvironment& environment);

}  // namespace tandem
