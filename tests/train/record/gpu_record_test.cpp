#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/self_communicator.h"
#include "train/scratch.h"
#include "train/small_run.h"
#include "train/trainer.h"

// What a whole run records of its GPU, whose counters are made up: tests/device/fake_nvml.cpp. The
// run computes on the CPU, see seen_gpu.cpp.

namespace tandem {
namespace {

using Json = nlohmann::json;

class GpuRecordTest : public ScratchTest {
 protected:
  void SetUp() override {
    // dlopen() of the driver's name takes what is loaded under that name already.
    driver_ = dlopen(TANDEM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(driver_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (driver_ != nullptr) dlclose(driver_);
  }

  std::vector<Json> train_records() {
    std::istringstream lines(get(path("run") / "metrics.jsonl"));
    std::vector<Json> records;
    for (std::string line; std::getline(lines, line);) {
      // The last line may be on its way still.
      const Json record = Json::parse(line, nullptr, false);
      if (!record.is_discarded() && record["event"] == "train") records.push_back(record);
    }
    return records;
  }

  long with_counters() {
    const std::vector<Json> records = train_records();
    return std::ranges::count_if(records, [](const Json& r) { return r.contains("gpu_seconds"); });
  }

  /// Trains until so many records have the counters, or for `longest` in vain.
  void train_until(long wanted, std::chrono::seconds longest, const RunConfig& config) {
    SelfCommunicator self;
    Trainer trainer(config, {.folder = path("run"), .resume_from = {}}, self);
    std::atomic<bool> ended = false;
    std::thread watch([&] {
      const auto deadline = std::chrono::steady_clock::now() + longest;
      while (!ended && std::chrono::steady_clock::now() < deadline && with_counters() < wanted) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      (void)kill(getpid(), SIGTERM);
    });
    EXPECT_NO_THROW(EXPECT_EQ(trainer.run(), TrainOutcome::stopped));
    ended = true;
    watch.join();
  }

 private:
  void* driver_ = nullptr;
};

// Six steps an epoch of a few milliseconds each, a checkpoint after every second one and an
// evaluation after the last: nowhere is there half a second of training between two pauses.
TEST_F(GpuRecordTest, ShortEpochsWithManyCheckpointsHaveTheCounters) {
  RunConfig config = small_run();
  config.checkpoint_every_steps = 2;
  config.epochs = 1'000'000;
  train_until(3, std::chrono::seconds(20), config);
  std::int64_t samples = 0;
  double seconds = 0.0;
  long told = 0;
  long told_through_pauses = 0;
  bool through_pauses = true;
  for (const Json& record : train_records()) {
    samples += record["samples"].get<std::int64_t>();
    seconds += record["seconds"].get<double>();
    if (!record.contains("gpu_seconds")) continue;
    ++told;
    const double training = record["gpu_training_seconds"];
    EXPECT_GE(record["gpu_seconds"], 0.5);
    EXPECT_EQ(record["sm_activity"], 0.5);
    EXPECT_EQ(record["dram_activity"], "unavailable");
    EXPECT_EQ(record["energy_joules"], 2.5);
    // A stretch of training alone, on a machine that stood still, ends with the pause after it.
    const bool whole = std::exchange(through_pauses, training < record["gpu_seconds"]);
    if (through_pauses) ++told_through_pauses;
    if (whole && through_pauses) {
      EXPECT_GE(training, seconds);
      EXPECT_NEAR(record["joules_per_1000_images"], 2500.0 / static_cast<double>(samples), 1e-9);
    }
    samples = 0;
    seconds = 0.0;
  }
  EXPECT_GE(told_through_pauses, 1) << "the pauses are in the figures, but not said to be";
  EXPECT_GE(told, 3) << "of " << train_records().size() << " records";
}

}  // namespace
}  // namespace tandem
