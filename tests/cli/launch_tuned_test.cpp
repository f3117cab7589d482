#include <fmt/format.h>

#include "base/build_id.h"
#include "cli/launched_job.h"
#include "cli/message_check.h"
#include "device/machine.h"
#include "train/placement_key.h"

// What `tandem launch --ranks-per-gpu auto` takes of the choices that are kept, on made-up GPUs
// (tests/launch) and with made-up choices.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* not_tuned = "not tuned yet: one rank on each device; run ";

class LaunchAsTuned : public LaunchedJob {
 protected:
  /// As the launcher should see this host.
  static PlacementHost this_host() {
    return {.devices = "2 x Fake GPU",
            .driver = "580.1",
            .cores = default_threads(read_machine(), 1),
            .build = build_id(tandem({}).front())};
  }

  /// Keeps a choice, of four processes of 30 % at first, with three workers each, and no other.
  void keep(const PlacementHost& host, const Words& settings = {}, int hosts = 1,
            const Placement& placement = {.ranks_per_device = 4, .sm_percent = 30}) const {
    fs::remove_all(path("cache"));
    ConfigTable table = ConfigTable::from_file(path("run.toml"));
    table.override_key("train.device=cpu");
    for (const std::string& setting : settings) table.override_key(setting);
    PlacementStore(path("cache") / "placements")
        .save(placement_key(read_run_config(table), host, hosts), {.placement = placement,
                                                                   .loader_workers = 3,
                                                                   .hosts = hosts,
                                                                   .date = "2026-05-06T07:08:09Z"});
  }

  Launch automatic(const Words& settings = {}, const Words& options = {}) const {
    Words all{"--ranks-per-gpu", "auto", "--dry-run"};
    all.insert(all.end(), options.begin(), options.end());
    return with(launch(all, set(settings)), "TANDEM_CACHE_DIR", path("cache").string());
  }

  /// Inside a Slurm allocation of two nodes, on one of them.
  Launch in_allocation(Launch launch) const {
    launch = with_script(launch, "srun", "#!/bin/sh\nexit 1\n");
    for (const auto& [name, value] :
         {std::pair{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURMD_NODENAME", "a"}}) {
      launch = with(launch, name, value);
    }
    return launch;
  }

  static void expect_told(const Launch& launch, const std::string& told,
                          const std::string& planned) {
    const Outcome outcome = run(launch);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, told), 1U) << outcome.err << "\nwanted: " << told;
    EXPECT_EQ(occurrences(outcome.out, planned), 1U) << outcome.out << "\nwanted: " << planned;
  }
};

TEST_F(LaunchAsTuned, TakesWhatTheTunerChose) {
  ASSERT_EQ(this_host().build.size(), 40U) << "the program was linked without a build ID";
  keep(this_host());
  const Outcome outcome = run(automatic());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("8 processes on 1 host"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" --sm-percent 30 "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" --set data.workers=3 "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("tuned on 2026-05-06T07:08:09Z: 4 processes of 30 %, 3 loader "
                             "workers each"),
            std::string::npos)
      << outcome.err;
  // The command's own number of workers stays.
  for (const char* one : {"data.workers=1", "data.workers = 1"}) {
    const Outcome kept = run(automatic({one}));
    EXPECT_NE(kept.out.find(one), std::string::npos) << kept.out << kept.err;
    EXPECT_EQ(kept.out.find("data.workers=3"), std::string::npos) << one;
  }
}

// The tuner measures without what the config folds.
TEST_F(LaunchAsTuned, StartsAsManyRanksAsTheTunerSaysWhateverTheConfigFolds) {
  const auto planned = [&](const Words& options, const std::string& processes, int folded) {
    const Outcome outcome = run(automatic({"parallel.folded_ranks=2"}, options));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.out, processes + " processes on 1 host"), 1U) << outcome.out;
    // For mpirun and for srun, behind what it overrides.
    const std::string last = fmt::format(" --set parallel.folded_ranks={}\n", folded);
    EXPECT_EQ(occurrences(outcome.out, last), 2U) << outcome.out;
    return outcome.out;
  };
  planned({}, "2", 1);  // not tuned
  keep(this_host());
  EXPECT_EQ(occurrences(planned({}, "8", 1), " --sm-percent 30 "), 2U);
  EXPECT_EQ(occurrences(planned({"--colocation", "folded"}, "2", 4), "--sm-percent"), 0U)
      << "it was measured of processes";
}

// From a login node the runs' results could not be read.
TEST_F(LaunchAsTuned, IsNotTunedFromOutsideOfASlurmAllocation) {
  Launch tune = in_allocation(with_driver({"tune", "run.toml", "--gpus", "none"}));
  tune.command.insert(tune.command.begin(), {"env", "-u", "SLURMD_NODENAME"});
  expect_one_message(run(tune), {"tandem tune: this host is none of the Slurm allocation's; start "
                                 "it on the first of them"});
}

TEST_F(LaunchAsTuned, NeedsNoFolderOfChoices) {
  for (const char* ranks : {"auto", "2"}) {
    Launch made = launch({"--ranks-per-gpu", ranks, "--dry-run"});
    Words without{"env", "-u", "TANDEM_CACHE_DIR", "-u", "XDG_CACHE_HOME", "-u", "HOME"};
    made.command.insert(made.command.begin(), without.begin(), without.end());
    const Outcome outcome = run(made);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, not_tuned), *ranks == 'a' ? 1U : 0U) << outcome.err;
  }
}

TEST_F(LaunchAsTuned, LaysANumberOfRanksAsTheTunerLaidAsMany) {
  const auto planned = [&](const char* ranks, const Words& options = {}) {
    Words all{"--ranks-per-gpu", ranks, "--dry-run"};
    all.insert(all.end(), options.begin(), options.end());
    return run(with(launch(all, set({})), "TANDEM_CACHE_DIR", path("cache").string()));
  };
  keep(this_host(), {}, 1, {.ranks_per_device = 4, .colocation = Colocation::folded});
  const Outcome same = planned("4");
  EXPECT_EQ(occurrences(same.out, "2 processes on 1 host"), 1U) << same.out << same.err;
  EXPECT_EQ(occurrences(same.out, "parallel.folded_ranks=4"), 2U) << same.out;
  EXPECT_EQ(occurrences(same.err, "tuned on 2026-05-06T07:08:09Z: 4 folded"), 1U) << same.err;
  // Another number, or what the user says, goes before it.
  const Outcome other = planned("2");
  EXPECT_EQ(occurrences(other.out, "4 processes on 1 host"), 1U) << other.out;
  EXPECT_EQ(occurrences(other.err, "2 processes share each GPU; --colocation folded"), 1U)
      << other.err;
  const Outcome said = planned("4", {"--colocation", "processes"});
  EXPECT_EQ(occurrences(said.out, "8 processes on 1 host"), 1U) << said.out;
  EXPECT_EQ(occurrences(said.err, "tuned on"), 0U) << said.err;
  // A share of multiprocessors comes with processes, but for one that the user says.
  keep(this_host());
  EXPECT_EQ(occurrences(planned("4").out, " --sm-percent 30 "), 2U);
  const Outcome share = planned("4", {"--sm-percent", "40"});
  EXPECT_EQ(occurrences(share.out, " --sm-percent 40 "), 2U) << share.out << share.err;
  EXPECT_EQ(occurrences(share.err, "tuned on"), 0U) << share.err;
}

TEST_F(LaunchAsTuned, SaysWhatToRunWhereNothingFits) {
  keep(this_host());
  const std::string tune = std::string(not_tuned) + "tandem tune run.toml --set train.device=cpu";
  expect_told(automatic({"train.global_batch=64"}),
              tune + " --set train.global_batch=64 --gpus all\n", "2 processes on 1 host");
  expect_told(automatic({}, {"--gpus", "1"}), tune + " --gpus 1\n", "1 process on 1 host");
}

TEST_F(LaunchAsTuned, TakesNoChoiceOfAnotherHostDriverOrBuild) {
  const PlacementHost here = this_host();
  for (std::string PlacementHost::*fact :
       {&PlacementHost::devices, &PlacementHost::driver, &PlacementHost::build}) {
    PlacementHost other = here;
    other.*fact += "1";
    keep(other);
    expect_told(automatic(), not_tuned, "2 processes on 1 host");
  }
  PlacementHost other = here;
  ++other.cores;
  keep(other);
  expect_told(automatic(), not_tuned, "2 processes on 1 host");
  keep(here);
  expect_told(with(automatic(), "FAKE_DRIVER", "580.2"), not_tuned, "2 processes on 1 host");
}

TEST_F(LaunchAsTuned, TakesOneHostsChoiceForSeveralThatGetAsMuchEach) {
  const Words hosts{"--hosts", "localhost,b"};
  keep(this_host(), {"train.global_batch=16"});
  expect_told(automatic({}, hosts),
              "tuned on 2026-05-06T07:08:09Z on one host, with as much of the batch for each host: "
              "4 processes of 30 %",
              "16 processes on 2 hosts");
  // The whole batch on one host is another run, and so is one with as many devices in all.
  const std::string tune =
      std::string(not_tuned) +
      "tandem tune run.toml --set train.device=cpu --set "
      "train.global_batch=16 --gpus all on this host, for its share of the batch\n";
  keep(this_host());
  expect_told(automatic({"train.global_batch=32"}, hosts), tune, "4 processes on 2 hosts");
  PlacementHost twice = this_host();
  twice.devices = "4 x Fake GPU";
  keep(twice);
  expect_told(automatic({}, hosts), tune, "4 processes on 2 hosts");
}

TEST_F(LaunchAsTuned, TakesWhatWasTunedOnTheHostsOfAnAllocation) {
  keep(this_host(), {}, 2);
  expect_told(in_allocation(automatic()), "tuned on 2026-05-06T07:08:09Z: 4 processes of 30 %",
              "16 processes on 2 hosts");
  expect_told(automatic({"train.global_batch=16"}),
              "tuned on 2026-05-06T07:08:09Z on 2 hosts, with as much of the batch for each host: ",
              "8 processes on 1 host");
  // There the tuner's runs are on both hosts, as the job is.
  fs::remove_all(path("cache"));
  expect_told(in_allocation(automatic()),
              std::string(not_tuned) + "tandem tune run.toml --set train.device=cpu --gpus all\n",
              "4 processes on 2 hosts");
}

TEST_F(LaunchAsTuned, HasNoChoiceForAnEvaluation) {
  const Launch eval = with_driver({"launch", "--gpus", "all", "--ranks-per-gpu", "auto",
                                   "--dry-run", "--", "eval", "run.toml"});
  expect_told(eval,
              "--ranks-per-gpu auto: tandem tune chooses for training alone; one rank on each",
              "2 processes on 1 host");
}

TEST_F(LaunchAsTuned, RefusesToGuessForHostsThatItIsNoneOf) {
  keep(this_host());
  expect_one_message(run(automatic({}, {"--hosts", "b", "--gpus", "2"})),
                     {"--ranks-per-gpu auto: ", "this host is none of them",
                      "start tandem launch on one of them, or give a number"});
}

}  // namespace
}  // namespace tandem::cli
