#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>

#include "cli/launched_job.h"
#include "cli/message_check.h"

// Where `tandem launch` puts its ranks: which MPS daemon they attach to, whatever the environment
// names, on which cores they run, and whether a GPU's memory holds them. GPUs and the MPS daemon
// are made up (tests/launch).

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* pipe_variable = "CUDA_MPS_PIPE_DIRECTORY";
constexpr const char* share_variable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
constexpr const char* limit_variable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

/// Jobs of a user who has an MPS daemon of his own, with limits for its clients.
class RanksBesideAnotherDaemon : public LaunchedJob {
 protected:
  RanksBesideAnotherDaemon() {
    fs::create_directories(pipes_);
    Launch start = among_variables(with_driver({}));
    start = with(with(start, "CUDA_MPS_LOG_DIRECTORY", pipes_), "CUDA_VISIBLE_DEVICES", "GPU-a");
    start.command = {"nvidia-cuda-mps-control", "-d"};
    EXPECT_EQ(run(start).code, 0);
  }
  void TearDown() override {
    write_file(fs::path(pipes_) / "quit", "");
    wait_until("the daemon has ended", 20.0, [&] { return !fs::exists(id_file(pipes_)); });
  }

  Launch among_variables(const Launch& launch) const {
    return with(with(with(launch, pipe_variable, pipes_), share_variable, "10"), limit_variable,
                "0=1G");
  }
  /// A job of two ranks, which is ended by `end`.
  template <typename Look>
  Outcome job(const Words& options, const Look& look) {
    const auto program =
        started(with_script(among_variables(launch(options, endless_job())), "mpirun",
                            fmt::format("#!/bin/sh\necho \"${}\" > {}\nPATH=${{PATH#*:}}\n"
                                        "exec mpirun \"$@\"\n",
                                        pipe_variable, pipes_of_mpirun_)));
    for (int rank = 0; rank < 2; ++rank) look(program->rank_process(rank));
    program->signal(SIGTERM);
    Outcome outcome = program->wait();
    EXPECT_EQ(outcome.code, 75) << outcome.err;
    return outcome;
  }
  /// Of the mpirun of the last job().
  std::string pipes_of_mpirun() const { return read_file(pipes_of_mpirun_); }
  static fs::path id_file(const fs::path& pipes) { return pipes / "nvidia-cuda-mps-control.pid"; }
  static void expect_no_limits(pid_t process) {
    EXPECT_EQ(environment_of(process, share_variable), "not set");
    EXPECT_EQ(environment_of(process, limit_variable), "not set");
  }
  void expect_one_warning(const Outcome& outcome) const {
    EXPECT_EQ(occurrences(outcome.err,
                          fmt::format("warning: the environment's {}='{}', {}='10', {}='0=1G' are "
                                      "ignored: ",
                                      pipe_variable, pipes_, share_variable, limit_variable)),
              1U)
        << outcome.err;
  }

  const std::string pipes_ = path("mine").string();

 private:
  const std::string pipes_of_mpirun_ = path("pipes_of_mpirun").string();
};

TEST_F(RanksBesideAnotherDaemon, LeaveItAloneWithAGpuEach) {
  expect_one_warning(job({}, [](pid_t rank) {
    EXPECT_EQ(environment_of(rank, pipe_variable), "/nonexistent");
    expect_no_limits(rank);
  }));
  EXPECT_EQ(pipes_of_mpirun(), "/nonexistent\n");
}

TEST_F(RanksBesideAnotherDaemon, GetNoneOfItsLimitsFromTheirOwnDaemon) {
  expect_one_warning(job({"--gpus", "1", "--ranks-per-gpu", "2"}, [&](pid_t rank) {
    const fs::path own = environment_of(rank, pipe_variable);
    EXPECT_EQ(own.parent_path().parent_path(), path("run"));
    expect_no_limits(rank);
    // What a daemon inherits is what its clients get where they say nothing.
    expect_no_limits(std::stoi(read_file(id_file(own))));
  }));
  EXPECT_EQ(pipes_of_mpirun(), "/nonexistent\n");
}

TEST_F(RanksBesideAnotherDaemon, UseItOnRequestWithAGpuEachToo) {
  const Outcome outcome = job({"--reuse-mps"}, [&](pid_t rank) {
    EXPECT_EQ(environment_of(rank, pipe_variable), pipes_);
    EXPECT_EQ(environment_of(rank, share_variable), "10");
    EXPECT_EQ(environment_of(rank, limit_variable), "0=1G");
  });
  EXPECT_EQ(pipes_of_mpirun(), pipes_ + "\n");
  EXPECT_EQ(outcome.err.find("ignored"), std::string::npos) << outcome.err;
}

TEST_F(RanksBesideAnotherDaemon, AreRefusedWhereItDoesNotTakeThemToo) {
  std::string clients;
  std::string processes;
  for (int client = 100001; client <= 100046; ++client) {
    clients += fmt::format("{}\n", client);
    processes += fmt::format("{}{}", processes.empty() ? ":processes=" : ",", client);
  }
  write_file(fs::path(pipes_) / "clients", clients);
  const auto job = [&](const Words& options) {
    return with(among_variables(launch(options, set({"train.max_steps=1"}))), "FAKE_GPUS",
                fmt::format("GPU-a:processes=4711 GPU-b{}", processes));
  };
  const Outcome refused = run(job({"--reuse-mps", "--ranks-per-gpu", "4", "--oversubscribe"}));
  expect_one_message(
      refused, {fmt::format("--reuse-mps: CUDA MPS takes 48 processes a GPU with this driver, and "
                            "the daemon in '{}' has 46 clients on GPU-b (",
                            pipes_),
                ") already, so that 4 more do not fit; "});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_EQ(run(job({"--reuse-mps", "--ranks-per-gpu", "4", "--gpus", "1"})).code, 0);
  // Its clients stay on the GPU that this job does not see.
  const Outcome beside = run(with(job({"--reuse-mps", "--ranks-per-gpu", "4", "--dry-run"}),
                                  "CUDA_VISIBLE_DEVICES", "GPU-a"));
  EXPECT_EQ(beside.code, 0) << beside.err;
}

TEST_F(RanksBesideAnotherDaemon, AreRefusedWhereItsShareOfTheEnvironmentIsNone) {
  const Outcome refused =
      run(with(among_variables(launch({"--reuse-mps"})), share_variable, "150"));
  expect_one_message(refused, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='150' is no share of a GPU"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(RanksBesideAnotherDaemon, HaveItsVariablesAsTheyAreWithoutGpus) {
  const Outcome outcome =
      job({"--gpus", "none", "--ranks-per-gpu", "2", "--oversubscribe"}, [&](pid_t rank) {
        EXPECT_EQ(environment_of(rank, pipe_variable), pipes_);
        EXPECT_EQ(environment_of(rank, share_variable), "10");
        EXPECT_EQ(environment_of(rank, "CUDA_VISIBLE_DEVICES"), "") << "it sees a GPU";
      });
  EXPECT_EQ(pipes_of_mpirun(), pipes_ + "\n");
  EXPECT_EQ(outcome.err.find("ignored"), std::string::npos) << outcome.err;
}

TEST_F(RanksBesideAnotherDaemon, AreToldByADryRun) {
  const auto told = [&](const Words& options) {
    Words all = options;
    all.insert(all.end(), {"--gpus", "1", "--dry-run"});
    return run(among_variables(launch(all)));
  };
  const std::string unset =
      fmt::format("\n    -u {} -u {} CUDA_VISIBLE_DEVICES=GPU-a {}=", share_variable,
                  limit_variable, pipe_variable);
  for (const Words& options : {Words{}, Words{"--ranks-per-gpu", "2", "--colocation", "folded"}}) {
    const Outcome outcome = told(options);
    EXPECT_EQ(occurrences(outcome.out, unset + "/nonexistent "), 1U) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.out.find("MPS: "), std::string::npos) << outcome.out;
    EXPECT_EQ(occurrences(outcome.out, fmt::format("\n  {}=/nonexistent mpirun ", pipe_variable)),
              1U)
        << outcome.out;
    expect_one_warning(outcome);
  }
  const Outcome several = told({"--ranks-per-gpu", "2", "--sm-percent", "40"});
  EXPECT_EQ(occurrences(several.out, unset + path("run").string()), 2U) << several.out;
  EXPECT_EQ(occurrences(several.out, fmt::format(" {}=40 ", share_variable)), 2U) << several.out;
  expect_one_warning(several);
  const Outcome reused = told({"--reuse-mps"});
  EXPECT_EQ(reused.out.find("/nonexistent"), std::string::npos) << reused.out;
  EXPECT_EQ(reused.out.find(" -u "), std::string::npos) << reused.out;
  EXPECT_NE(reused.out.find("MPS: your running daemon\n"), std::string::npos) << reused.out;
  // The GPUs are other hosts', of which this one knows nothing.
  expect_one_warning(told({"--hosts", "node-a,node-b"}));
}

/// "0-2,8": the kernel's and the launcher's way to write CPUs.
std::set<int> cpus_of(const std::string& list) {
  std::set<int> cpus;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = std::stoi(part);
    const int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::set<int> cpus_of_process(pid_t process) {
  const std::string status = read_file(fmt::format("/proc/{}/status", process));
  const std::string key = "\nCpus_allowed_list:";
  const std::size_t at = status.find(key);
  if (at == std::string::npos) throw std::runtime_error("the kernel tells no CPUs");
  const std::size_t begin = at + key.size();
  return cpus_of(status.substr(begin, status.find('\n', begin) - begin));
}

std::set<int> own_cpus() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) throw std::runtime_error("no CPUs");
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &usable)) cpus.insert(cpu);
  }
  return cpus;
}

/// Whole cores, of which each may have several CPUs.
std::size_t cores_of(const std::set<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    cores.insert(
        read_file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)));
  }
  return cores.size();
}

class RanksOnCores : public LaunchedJob {
 protected:
  void expect_apart(const Words& options) {
    const std::set<int> usable = own_cpus();
    const std::set<int> in_common = cores_of(usable) > 1 ? std::set<int>{} : usable;
    const auto program = started(options);
    std::vector<std::set<int>> shares;
    for (int rank = 0; rank < 2; ++rank) {
      shares.push_back(cpus_of_process(program->rank_process(rank)));
      EXPECT_FALSE(shares.back().empty());
      EXPECT_TRUE(std::ranges::includes(usable, shares.back()));
    }
    std::set<int> both;
    std::ranges::set_intersection(shares[0], shares[1], std::inserter(both, both.end()));
    EXPECT_EQ(both, in_common);
    program->signal(SIGTERM);
    EXPECT_EQ(program->wait().code, 75);
    Words planned = options;
    planned.emplace_back("--dry-run");
    const std::string plan = run(launch(planned)).out;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string key = ", cores ";
      const std::size_t at = plan.find(key, plan.find(fmt::format("process {}:", rank)));
      ASSERT_NE(at, std::string::npos) << plan;
      const std::size_t begin = at + key.size();
      EXPECT_EQ(cpus_of(plan.substr(begin, plan.find('\n', begin) - begin)), shares[rank]) << plan;
    }
  }
};

TEST_F(RanksOnCores, HaveTheirsAloneWithAGpuEach) { expect_apart({}); }

TEST_F(RanksOnCores, HaveTheirsAloneOnOneGpu) {
  expect_apart({"--gpus", "1", "--ranks-per-gpu", "2"});
}

TEST_F(RanksOnCores, HaveTheirsAloneWithoutGpus) {
  expect_apart({"--gpus", "none", "--ranks-per-gpu", "2", "--oversubscribe"});
}

class RanksInAGpusMemory : public LaunchedJob {
 protected:
  /// Of GPUs of 1 GiB.
  Outcome planned(const Words& options, const std::string& batch,
                  const std::string& device = "cuda") const {
    Words all = options;
    all.emplace_back("--dry-run");
    return run(launch(all, set({"train.device=" + device, "train.global_batch=" + batch,
                                "data.height=128", "data.width=128"})));
  }
};

TEST_F(RanksInAGpusMemory, AreRefusedBeforeAnythingStarts) {
  for (const Words& how :
       {Words{"--gpus", "1", "--ranks-per-gpu", "4"}, Words{"--gpus", "1,0"},
        Words{"--gpus", "1", "--ranks-per-gpu", "4", "--colocation", "folded"}}) {
    expect_one_message(
        planned(how, "65536"),
        {"training does not fit the memory of GPU-", " (Fake GPU): ", " of activations for ",
         " in all, of 1.0 GiB that it has; about ", " at once fit",
         ": lower train.global_batch or data.size, or raise train.accumulate"});
    const Outcome small = planned(how, "32");
    EXPECT_EQ(small.code, 0) << small.err;
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(RanksInAGpusMemory, AreNotAskedForWhereTheyComputeOnTheCpu) {
  const Outcome outcome = planned({}, "1024", "cpu");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

// Of hosts that cannot be looked at the largest limit of any driver counts.
TEST_F(RanksInAGpusMemory, AreNoMoreThanMpsTakesOnOtherHosts) {
  const auto many = [&](const Words& more) {
    Words options{"--hosts", "node-a,node-b", "--gpus", "4", "--dry-run"};
    options.insert(options.end(), more.begin(), more.end());
    return run(launch(options));
  };
  expect_one_message(many({"--ranks-per-gpu", "61"}),
                     {"--ranks-per-gpu 61: CUDA MPS takes 60 processes a GPU at most, with any "
                      "driver; ask for fewer, or use --colocation folded"});
  EXPECT_EQ(many({"--ranks-per-gpu", "60"}).code, 0);
  EXPECT_EQ(many({"--ranks-per-gpu", "61", "--colocation", "folded"}).code, 0);
}

}  // namespace
}  // namespace tandem::cli
