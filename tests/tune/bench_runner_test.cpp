#include "tune/bench_runner.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "support/message.h"
#include "support/scoped_variable.h"
#include "tune/made_up.h"
#include "tune/script.h"

namespace tandem {
namespace {

constexpr const char* gpu_json =
    R"({"device": "NVIDIA H200", "threads_per_rank": 0, "devices": 2, "hosts": 1,
 "start": {"model_seconds": 12.5, "borrowed_kernels": 3},
 "step": {"images_per_second": 2000.0},
 "with_loader": {"images_per_second": 1500.0, "step_seconds": 0.2,
                 "step_seconds_range": [0.19, 0.21]},
 "loader": {"images_per_second": 1600.0}, "memory": {"device_bytes": 1024}})";

TEST(BenchCommand, IsWhatAUserWouldRun) {
  const BenchCall call{.program = "/bin/tandem",
                       .config = "run.toml",
                       .overrides = {"train.global_batch=64"},
                       .gpus = "0,2",
                       .seconds = 0.8};
  EXPECT_EQ(
      join(bench_command(call, processes(4, 38, 2), "/tmp/b.json"), " "),
      "/bin/tandem launch --gpus 0,2 --ranks-per-gpu 4 --colocation processes --sm-percent 38 "
      "-- bench run.toml --set train.global_batch=64 --set parallel.folded_ranks=1 --set "
      "data.workers=2 --rates-only --seconds 0.8 --json /tmp/b.json");
  const std::vector<std::string> plain =
      bench_command({.program = "t", .config = "c", .overrides = {}, .gpus = ""}, folded(2), "j");
  EXPECT_EQ(plain[3], "2");
  EXPECT_EQ(plain[5], "folded");
  EXPECT_EQ(plain[6], "--");
}

TEST(ReadMeasurement, TakesRatesAndFacts) {
  const Measurement found = read_measurement(gpu_json);
  ASSERT_TRUE(found.rates);
  EXPECT_EQ(found.rates->training, 1500.0);
  EXPECT_EQ(found.rates->one_batch, 2000.0);
  EXPECT_EQ(found.rates->loader, 1600.0);
  EXPECT_NEAR(found.rates->range, 0.1, 1e-12);
  EXPECT_EQ(found.rates->device_bytes, 1024.0);
  EXPECT_EQ(found.device, "NVIDIA H200");
  EXPECT_EQ(found.devices, 2);
  EXPECT_EQ(found.plan_seconds, 12.5);
  EXPECT_TRUE(found.rates->borrowed_kernels);
  EXPECT_TRUE(found.on_gpus);

  std::string cpu = gpu_json;
  cpu.replace(cpu.find("\"threads_per_rank\": 0"), 21, "\"threads_per_rank\": 3");
  cpu.replace(cpu.find("1024"), 4, "\"unavailable\"");
  cpu.replace(cpu.find("kernels\": 3"), 11, "kernels\": 0");
  const Measurement on_cpu = read_measurement(cpu);
  EXPECT_FALSE(on_cpu.on_gpus);
  EXPECT_NE(on_cpu.device, "NVIDIA H200");
  EXPECT_FALSE(on_cpu.rates->device_bytes);
  EXPECT_FALSE(on_cpu.rates->borrowed_kernels);

  EXPECT_NE(
      message_of<InputError>([] { read_measurement("{\"step\": 3}"); }).find("cannot be read"),
      std::string::npos);
}

TEST(ReadFailure, FindsTheCause) {
  const Measurement other = read_failure("noise\n[rank 2] error: first\nerror: second\n");
  EXPECT_EQ(other.problem, "first");
  EXPECT_FALSE(other.does_not_fit);
  const Measurement memory = read_failure(
      "error: a peer is gone\n[rank 1] error: out of memory on NVIDIA H200: 3 GiB\n"
      "error: out of memory elsewhere");
  EXPECT_EQ(memory.problem, "out of memory on NVIDIA H200: 3 GiB");
  EXPECT_TRUE(memory.does_not_fit);
  EXPECT_TRUE(read_failure("error: Training of 512 samples at once does not fit the memory of X")
                  .does_not_fit);
  EXPECT_TRUE(read_failure("error: training does not fit the memory of this host: it needs more")
                  .does_not_fit)
      << "as the launcher tells";
  EXPECT_EQ(read_failure("").problem, "");
}

class Runner : public testing::Test {
 protected:
  Measurement measure(const std::string& script, double seconds = 20.0,
                      std::function<bool()> stop = {}) {
    return measure(script, folded(2), false, seconds, std::move(stop));
  }
  Measurement measure(const std::string& script, const Candidate& candidate, bool borrow,
                      double seconds = 20.0, std::function<bool()> stop = {}) {
    const BenchCall call{.program = write_script(folder_, script),
                         .config = "run.toml",
                         .overrides = {},
                         .gpus = ""};
    return BenchRunner(call, folder_.path(), std::move(stop)).measure(candidate, borrow, seconds);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Runner, ReadsWhatTheRunWrites) {
  const Measurement found = measure(std::string("for last; do :; done; cat > \"$last\" <<'END'\n") +
                                    gpu_json + "\nEND\n");
  ASSERT_TRUE(found.rates) << found.problem;
  EXPECT_EQ(found.rates->training, 1500.0);
}

TEST_F(Runner, ARunThatFailsIsAMeasurement) {
  const Measurement memory = measure("echo 'error: out of memory on it' >&2; exit 2");
  EXPECT_FALSE(memory.rates);
  EXPECT_TRUE(memory.does_not_fit);
  EXPECT_EQ(measure("exit 5").problem, "ended with code 5 and no message");
  EXPECT_FALSE(measure("exit 5").timed_out);
  const Measurement slow = measure("exec sleep 60", 0.2);
  EXPECT_EQ(slow.problem, "took longer than 0.2 s");
  EXPECT_TRUE(slow.timed_out);
}

TEST_F(Runner, HasAShareAloneBorrowKernels) {
  const auto setting = [this](const Candidate& candidate, bool borrow) {
    return measure("echo \"error: ${TANDEM_TUNE-not set}\"; exit 1", candidate, borrow).problem;
  };
  {
    const ScopedVariable tune("TANDEM_TUNE", nullptr);
    EXPECT_EQ(setting(processes(4, 38), true), "borrow");
    EXPECT_EQ(setting(processes(4, 38), false), "not set");
    EXPECT_EQ(setting(processes(4), true), "not set");
  }
  const ScopedVariable empty("TANDEM_TUNE", "");
  EXPECT_EQ(setting(processes(4, 38), true), "borrow");
  const ScopedVariable users("TANDEM_TUNE", "off");
  EXPECT_EQ(setting(processes(4, 38), true), "off");
}

TEST_F(Runner, StopsWhereTheUserStops) {
  EXPECT_THROW(measure("exec sleep 60", 60.0, [] { return true; }), Interrupted);
}

}  // namespace
}  // namespace tandem
