#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/faults/fault_check.h"
#include "cli/faults/launch_fault.h"
#include "parallel/placement/mps_control.h"

// Faults that need a GPU: one of the device itself, and memory that does not suffice.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

using DeviceFault = LaunchFault;

// How far a fault of one MPS client reaches is the driver's business, and both are right: it may
// end the server's other clients, or only the one that went astray. Here that is none of the job's
// ranks, so that the job may only go on where its server is sound. What a rank's own fault does is
// not left open: FaultyDevice in launch_rank_fault_test.cpp.
TEST_F(DeviceFault, OfAnotherClientLeavesTheJobAloneOrEndsItWithOneLine) {
  const auto job = started(shared_gpu(), set({"parallel.timeout_seconds=10"}));
  const std::vector<pid_t> processes = processes_of(*job);
  Launch client = with_driver({});
  client.command = {TANDEM_FAULTY_CLIENT, "fault"};
  for (const char* name : {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_VISIBLE_DEVICES"}) {
    client = with(client, name, environment_of(processes[0], name));
  }
  const Outcome fault = run(client);
  ASSERT_EQ(fault.code, 0) << fault.out << fault.err;
  const int step = checkpoint_steps(path("out")).back();
  // A rank meets it in its next step; several checkpoints are some hundred steps at least.
  wait_until("the job has ended or gone on", 30.0, [&] {
    const std::vector<int> steps = checkpoint_steps(path("out"));
    return !job->running() ||
           (!steps.empty() && steps.back() > step + 8 * device().checkpoint_every);
  });
  RecordProperty("the_job", job->running() ? "went on" : "ended");
  if (job->running()) {
    const fs::path pipes = environment_of(processes[0], "CUDA_MPS_PIPE_DIRECTORY");
    const auto faulty = MpsControl(pipes).faulty_servers();
    ASSERT_TRUE(faulty.has_value());
    EXPECT_TRUE(faulty->empty());
    job->signal(SIGTERM);
    EXPECT_EQ(end_after_fault(*job).code, stopped);
  } else {
    const Outcome outcome = end_after_fault(*job);
    // Neither a mistake of the user's nor a stop: it would be restarted where that is asked for.
    EXPECT_NE(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.code, stopped) << outcome.err;
    const std::string line = only_error(outcome);
    for (const std::string& part : {std::string("rank "), host_name(), std::string("step ")}) {
      EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
    }
  }
  expect_clean_end(processes);
}

/// An MPS daemon of the user's own, with a client that computes nothing.
class OwnDaemonWithAClient : public LaunchFault {
 protected:
  void SetUp() override {
    fs::create_directories(pipes_);
    ASSERT_EQ(code_of({"nvidia-cuda-mps-control", "-d"}), 0);
    Launch idle = for_daemon(
        pipes_, {TANDEM_FAULTY_CLIENT, "hold", std::to_string(SIZE_MAX), path("idle").string()});
    idle.timeout = 120.0;
    client_ = std::make_unique<Program>(idle);
    wait_until("the client has begun", 30.0, [&] { return fs::exists(path("idle")); });
  }
  void TearDown() override {
    client_.reset();
    EXPECT_EQ(code_of({"sh", "-c", "echo quit -t 5 | nvidia-cuda-mps-control"}), 0);
    expect_nothing_left();
  }

  int code_of(const Words& command) const { return run(for_daemon(pipes_, command)).code; }
  Outcome job() const {
    return run(with(launch(shared_gpu({"--reuse-mps"}), set({"train.max_steps=3"})),
                    "CUDA_MPS_PIPE_DIRECTORY", pipes_.string()));
  }

  const fs::path pipes_ = path("mine");
  std::unique_ptr<Program> client_;
};

// As above it is the driver's business whether the server outlives a fault of a client of its. The
// one that meets the fault stays, so that a server that does not is still there after the job.
TEST_F(OwnDaemonWithAClient, IsReusedAfterAFaultOnceItsServerIsSound) {
  ASSERT_EQ(code_of({TANDEM_FAULTY_CLIENT, "fault"}), 0);
  const Outcome beside = job();
  const auto faulty = MpsControl(pipes_).faulty_servers();
  ASSERT_TRUE(faulty.has_value());
  std::cout << "the server is " << (faulty->empty() ? "sound" : "spoilt") << '\n';
  if (faulty->empty()) {
    EXPECT_EQ(beside.code, 0) << beside.err;
  } else {
    expect_line(beside, 1,
                {fmt::format("--reuse-mps: a client's device fault has spoilt the MPS server {} ",
                             faulty->front())});
  }
  client_.reset();
  const Outcome after = job();
  EXPECT_EQ(after.code, 0) << after.err;
}

/// On a GPU whose memory another process holds but for a part: small batches are too large then.
class TooLargeBatch : public LaunchFault {
 protected:
  TooLargeBatch() {
    constexpr std::size_t left = std::size_t{8} << 30U;
    holder_ = std::make_unique<Program>(Launch{
        .command = {TANDEM_FAULTY_CLIENT, "hold", std::to_string(left), path("held").string()},
        .folder = root(),
        .timeout = 300.0});
    wait_until("the memory is held", 30.0, [&] { return std::filesystem::exists(path("held")); });
  }

  /// Of a job with `batch` images for each rank, one step long.
  Outcome job_of(std::int64_t batch) const {
    const std::int64_t global = 4 * batch;
    return run(launch(shared_gpu(), set({fmt::format("train.global_batch={}", global),
                                         fmt::format("data.train_size={}", global),
                                         "train.epochs=1", "train.max_steps=1", "data.height=64",
                                         "data.width=64", "train.eval_batch=32"})));
  }

  void expect_refusal(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_LT(outcome.seconds, 60.0);
    const std::string line = only_error(outcome);
    for (const char* part :
         {"a training step of ", "does not fit the memory of ",
          "free for each of the 4 ranks that share it", " samples at once fit"}) {
      EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
    }
    expect_nothing_left();
  }

  /// The number in front of " samples at once fit".
  static std::int64_t advised(const std::string& message) {
    const std::size_t end = message.find(" samples at once fit");
    if (end == std::string::npos) return -1;
    return std::stoll(message.substr(message.rfind(' ', end - 1) + 1));
  }

 private:
  std::unique_ptr<Program> holder_;
};

TEST_F(TooLargeBatch, IsToldOnceWithOneThatFitsForAllRanksOfTheGpu) {
  const Outcome huge = job_of(2048);
  expect_refusal(huge);
  const std::int64_t fits = advised(huge.err);
  ASSERT_GT(fits, 8);
  // One rank alone would have the memory, but not four of them.
  expect_refusal(job_of(4 * fits));
  const Outcome fitting = job_of(fits);
  EXPECT_EQ(fitting.code, 0) << fitting.err;
  expect_nothing_left();
}

}  // namespace
}  // namespace tandem::cli
