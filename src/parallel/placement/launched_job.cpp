#include "parallel/placement/launched_job.h"

#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace tandem {

std::optional<int> environment_number(const ReadEnvironment& environment, const char* name) {
  const char* const text = environment(name);
  return text == nullptr ? std::nullopt : parse_number<int>(text);
}

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

bool may_launch(const ReadEnvironment& environment) {
  if (!started_by_mpi(environment)) return true;
  return environment("OMPI_COMM_WORLD_SIZE") == nullptr && read_launched_job(environment).size <= 1;
}

LaunchedJob read_launched_job(const ReadEnvironment& environment) {
  const auto number = [&](const char* name) { return environment_number(environment, name); };
  struct Names {
    const char* size;
    const char* rank;
  };
  // From the inside out: one that is set hides those of launchers around it, as of the srun with
  // which Open MPI's mpirun starts its helpers.
  for (const auto& [size, rank] :
       {Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Names{"PMI_SIZE", "PMI_RANK"},
        Names{"MPI_LOCALNRANKS", "MPI_LOCALRANKID"}}) {
    if (const auto value = number(size)) return {*value, number(rank).value_or(0), size};
  }
  // PMIx does not tell in the environment; that Slurm is its server does its name space.
  const char* name_space = environment("PMIX_NAMESPACE");
  const auto tasks = number("SLURM_STEP_NUM_TASKS");
  if (tasks && name_space != nullptr && std::string_view(name_space).starts_with("slurm")) {
    return {*tasks, number("SLURM_PROCID").value_or(0), "SLURM_STEP_NUM_TASKS"};
  }
  return {};
}

}  // namespace tandem
