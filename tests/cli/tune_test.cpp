#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/host_tag.h"
#include "cli/message_check.h"
#include "cli/tune_run.h"

// tandem tune, with real runs on CPU ranks: the table, what is kept, and how it stops.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

using Tune = TuneRun;

/// A core that this process may run on.
int own_core() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  int core = 0;
  while (!CPU_ISSET(static_cast<unsigned>(core), &cores)) ++core;
  return core;
}

TEST_F(Tune, CountsTheCoresThatItIsBoundTo) {
  Launch bound = launch({"--seconds", "20"});
  const std::vector<std::string> taskset{"taskset", "-c", std::to_string(own_core())};
  bound.command.insert(bound.command.begin(), taskset.begin(), taskset.end());
  const Outcome outcome = run(bound);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "left out: 2 processes, 1 worker each: cores for them: 1"), 1U)
      << outcome.out;
}

TEST_F(Tune, MeasuresChoosesAndKeeps) {
  const Outcome outcome = tune({"--seconds", "60", "--json", "tune.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  // How many workers "2 folded" gets depends on how many one rank was faster with.
  for (const char* part : {"one rank, 1 worker", "2 folded, ", "choice: ", "spread", "kept in "}) {
    EXPECT_GT(occurrences(outcome.out, part), 0U) << part << " is missing in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.err.rfind("measuring placements of resnet8, for 60 s at most; ", 0), 0U)
      << outcome.err;
  const Json json = Json::parse(read_file(path("tune.json")));
  EXPECT_EQ(json["devices"], 1);
  EXPECT_EQ(json["global_batch"], 32);
  EXPECT_EQ(json["rows"][0]["ranks_per_device"], 1);
  std::size_t measured = 0;
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["sm_percent"], 0) << "CPUs have no multiprocessors";
    EXPECT_FALSE(row.contains("problem")) << row;
    if (!row["runs"].empty() && row["runs"][0]["images_per_second"] > 0.0) ++measured;
  }
  EXPECT_EQ(measured, json["rows"].size());
  EXPECT_GE(measured, 3U);
  EXPECT_TRUE(json.contains("gain"));
  EXPECT_EQ(files_in("tmp"), 0U);
  EXPECT_EQ(files_in("cache/placements"), 1U);
  EXPECT_EQ(processes_left(), 0U);

  // The launcher finds it by itself.
  const Outcome launched = run({.command = tandem({"launch", "--ranks-per-gpu", "auto", "--dry-run",
                                                   "--", "train", "run.toml"}),
                                .folder = root(),
                                .environment = {{"TANDEM_CACHE_DIR", path("cache").string()}}});
  EXPECT_EQ(launched.code, 0) << launched.err;
  EXPECT_EQ(occurrences(launched.err, "not tuned yet"), 0U) << launched.err;
  EXPECT_GT(occurrences(launched.err, "tuned on"), 0U) << launched.err;
  // And for two such hosts with twice the batch.
  const Outcome on_two = run({.command = tandem({"launch", "--ranks-per-gpu", "auto", "--dry-run",
                                                 "--hosts", "localhost,b", "--", "train",
                                                 "run.toml", "--set", "train.global_batch=64"}),
                              .folder = root(),
                              .environment = {{"TANDEM_CACHE_DIR", path("cache").string()}}});
  EXPECT_EQ(on_two.code, 0) << on_two.err;
  EXPECT_EQ(occurrences(on_two.err, " on one host, with as much of the batch for each host: "), 1U)
      << on_two.err;
}

TEST_F(Tune, AnswersOneWhereTheBatchCannotBeShared) {
  std::vector<std::string> odd = set({"train.global_batch=27"});
  odd.insert(odd.end(), {"--seconds", "40", "--json", "tune.json"});
  const Outcome outcome = tune(odd);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "choice: one rank, "), 1U) << outcome.out;
  EXPECT_EQ(occurrences(outcome.out, "no other placement was measured"), 1U) << outcome.out;
  EXPECT_EQ(occurrences(outcome.out, "kept in "), 1U) << outcome.out;
  const Json told = Json::parse(read_file(path("tune.json")));
  EXPECT_FALSE(told["rows"].empty());
  for (const Json& row : told["rows"]) {
    EXPECT_EQ(row["ranks_per_device"], 1) << row;
  }
}

TEST_F(Tune, WhereNothingCanBeKeptItIsToldAndWrittenNevertheless) {
  write_file(path("file"), "no folder");
  // Enough for other placements than one rank, without which there is no choice to keep.
  Launch nowhere = launch({"--seconds", "60", "--json", "tune.json"});
  nowhere.environment.front().second = path("file/cache").string();
  Launch unset = nowhere;
  unset.environment.erase(unset.environment.begin());
  unset.command.insert(unset.command.begin(),
                       {"env", "-u", "HOME", "-u", "XDG_CACHE_HOME", "-u", "TANDEM_CACHE_DIR"});
  for (const Launch& each : {nowhere, unset}) {
    fs::remove(path("tune.json"));
    const Outcome outcome = run(each);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, "warning: the choice is not kept: "), 1U) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, "TANDEM_CACHE_DIR"), 1U) << outcome.err;
    EXPECT_EQ(occurrences(outcome.out, "choice: "), 1U) << outcome.out;
    EXPECT_EQ(occurrences(outcome.out, "kept in"), 0U) << outcome.out;
    EXPECT_TRUE(Json::parse(read_file(path("tune.json"))).contains("choice"));
  }
}

TEST_F(Tune, ASignalEndsEverything) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Program program(launch({"--seconds", "100"}));
    wait_until("a candidate runs", 30.0, [&] { return processes_left() >= 2; });
    program.signal(number);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 128 + number) << outcome.err;
    EXPECT_LT(outcome.seconds, 60.0);
    wait_until("its processes are gone", 10.0, [&] { return processes_left() == 0; });
    EXPECT_EQ(files_in("tmp"), 0U);
    EXPECT_EQ(files_in("cache/placements"), 0U) << "nothing was chosen";
  }
}

// As where choosing kernels takes long.
TEST_F(Tune, EndsInTimeWhereTheFirstRunDoesNot) {
  fs::create_directory(path("bin"));
  write_file(path("bin/mpirun"), "#!/bin/sh\nexec sleep 600\n");
  fs::permissions(path("bin/mpirun"), fs::perms::owner_all);
  Launch slow = launch({"--seconds", "5"});
  slow.environment.emplace_back("PATH",
                                path("bin").string() + ":" + std::string(std::getenv("PATH")));
  const Outcome outcome = run(slow);
  expect_one_message(outcome, {"one rank with the whole batch was not measured within ",
                               " s: "
                               "give more than --seconds 5"});
  EXPECT_GT(outcome.seconds, 3.0);
  EXPECT_LT(outcome.seconds, 40.0);  // of which a busy machine may take the most
  EXPECT_EQ(processes_left(), 0U);
  EXPECT_EQ(files_in("tmp"), 0U);
}

TEST_F(Tune, WhatIsWrongIsToldInOneLine) {
  expect_one_message(tune(set({"train.globl_batch=3"})), {"globl_batch", "unknown key"});
  expect_one_message(tune({"--json", "missing/tune.json"}), {"missing/tune.json", "written"});
  expect_one_message(command({"tune", "run.toml"}, 2), {"without mpirun"});
  std::vector<std::string> none = set({"train.device=cuda"});
  none.insert(none.end(), {"--gpus", "none"});
  const Outcome outcome = tune(none);
  expect_one_message(outcome, {"--gpus none: the config's train.device is \"cuda\""});
  EXPECT_EQ(occurrences(outcome.err, "measuring"), 0U) << outcome.err;
  const Outcome nowhere = tune({"--gpus", "GPU-nowhere,"});
  expect_one_message(nowhere, {"no GPU 'GPU-nowhere' here"});
  EXPECT_EQ(occurrences(nowhere.err, "measuring"), 0U) << nowhere.err;
  // What only running shows: the batch holds fewer samples than an epoch must have.
  expect_one_message(tune(set({"train.global_batch=512"})),
                     {"one rank cannot be measured", "train.global_batch"});
  EXPECT_EQ(files_in("tmp"), 0U);
}

TEST_F(Tune, WhatAKilledOneLeftIsRemovedByTheNext) {
  const auto left = [&](const std::string& job, std::chrono::minutes age) {
    std::filesystem::path folder =
        path("tmp") / fmt::format("tandem-tune-{}-{}-{}", ::geteuid(), job, host_tag());
    std::filesystem::create_directories(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
    write_file(folder / "run.toml", "x");
    std::filesystem::last_write_time(folder, std::filesystem::file_time_type::clock::now() - age);
    return folder;
  };
  const auto old = left("0badcafe", std::chrono::minutes(10));
  const auto young = left("0badcaff", std::chrono::minutes(0));
  EXPECT_EQ(tune({"--gpus", "GPU-nowhere,"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young)) << "it may be about to be locked";
}

}  // namespace
}  // namespace tandem::cli
