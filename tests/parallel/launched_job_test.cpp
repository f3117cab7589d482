#include "parallel/placement/launched_job.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

using Variables = std::map<std::string, std::string>;

ReadEnvironment environment_of(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

bool started_with(const Variables& variables) { return started_by_mpi(environment_of(variables)); }

TEST(StartedByMpi, KnowsTheLaunchers) {
  EXPECT_FALSE(started_with({}));
  EXPECT_TRUE(started_with({{"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(started_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}));
  EXPECT_TRUE(started_with({{"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}));
}

TEST(StartedByMpi, ABatchScriptOfSlurmIsNotALauncher) {
  EXPECT_FALSE(started_with({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}));
  EXPECT_FALSE(started_with({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
}

TEST(StartedByMpi, RefusesTasksThatSrunStartedWithoutMpi) {
  EXPECT_NE(message_of<InputError>([] {
              started_with({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
            }).find("--mpi=pmix"),
            std::string::npos);
}

TEST(LaunchedJob, IsTheNearestLaunchersWord) {
  struct Row {
    Variables variables;
    int size, rank;
  };
  for (const auto& [variables, size, rank] : {
           Row{{}, 1, 0},
           Row{{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}}, 4, 3},
           Row{{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, 2, 1},
           Row{{{"MPI_LOCALNRANKS", "8"}, {"MPI_LOCALRANKID", "5"}}, 8, 5},
           Row{{{"PMIX_NAMESPACE", "slurm.pmix.7.0"},
                {"PMIX_RANK", "2"},
                {"SLURM_STEP_NUM_TASKS", "6"},
                {"SLURM_PROCID", "2"}},
               6,
               2},
           // One rank of an mpirun whose helpers srun started on four nodes.
           Row{{{"OMPI_COMM_WORLD_SIZE", "1"},
                {"OMPI_COMM_WORLD_RANK", "0"},
                {"SLURM_STEP_NUM_TASKS", "4"}},
               1,
               0},
           Row{{{"PMIX_NAMESPACE", "prterun-node-7@1"},
                {"PMIX_RANK", "0"},
                {"SLURM_STEP_NUM_TASKS", "4"}},
               1,
               0},
           Row{{{"PMI_SIZE", "many"}}, 1, 0},
       }) {
    const LaunchedJob job = read_launched_job(environment_of(variables));
    EXPECT_EQ(job.size, size);
    EXPECT_EQ(job.rank, rank);
  }
}

}  // namespace
}  // namespace tandem
