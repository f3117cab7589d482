#include "cli/message_check.h"
#include "cli/run_folder.h"

// A launcher whose MPI is not the program's: each process finds itself alone.

namespace tandem::cli {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

class ForeignLauncher : public RunTest, public testing::WithParamInterface<Environment> {};

TEST_P(ForeignLauncher, IsRefusedBeforeAnythingIsWritten) {
  const Outcome outcome =
      run({.command = train_command("out"), .folder = root(), .environment = GetParam()});
  expect_one_message(outcome, {"the launcher started 2 processes", GetParam().front().first,
                               "Open MPI", "use that MPI's own mpirun"});
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

INSTANTIATE_TEST_SUITE_P(Marks, ForeignLauncher,
                         testing::Values(Environment{{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}},
                                         Environment{{"MPI_LOCALNRANKS", "2"},
                                                     {"MPI_LOCALRANKID", "0"}}),
                         [](const auto& each) { return each.param.front().first; });

TEST_F(ForeignLauncher, MayStartOneProcess) {
  const Outcome outcome = run({.command = train_command("out", set({"train.max_steps=1"})),
                               .folder = root(),
                               .environment = {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

// As `srun --pty bash` leaves it, where Slurm's kind of MPI is PMI or PMIx.
const std::vector<Environment> shells{
    Environment{{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}},
    Environment{
        {"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}, {"SLURM_STEP_NUM_TASKS", "1"}}};

TEST_F(ForeignLauncher, MayStartAShellThatLaunches) {
  const auto planned = [&](const Environment& environment) {
    return run(
        {.command = tandem({"launch", "--gpus", "none", "--dry-run", "--", "train", "run.toml"}),
         .folder = root(),
         .environment = environment});
  };
  for (const Environment& environment : shells) {
    const Outcome outcome = planned(environment);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  expect_one_message(planned({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}),
                     {"tandem launch starts mpirun itself; start it without mpirun"});
}

TEST_F(ForeignLauncher, MayStartAShellThatTunes) {
  for (const Environment& environment : shells) {
    const Outcome outcome = run({.command = tandem({"tune", "missing.toml"}),
                                 .folder = root(),
                                 .environment = environment});
    expect_one_message(outcome,
                       {"missing.toml", "no such file"});  // further on than it was refused
  }
}

}  // namespace
}  // namespace tandem::cli
