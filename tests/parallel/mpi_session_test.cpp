#include "parallel/mpi_session.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/message.h"

namespace tandem {
namespace {

bool started_with(const std::map<std::string, std::string>& variables) {
  return started_by_mpi([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

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

TEST(MpiSession, IsAloneWithoutALauncher) {
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  EXPECT_FALSE(session.distributed());
  EXPECT_EQ(session.make_world()->name(), "self");
  session.abort(3);  // nobody else to end: returns
}

}  // namespace
}  // namespace tandem
