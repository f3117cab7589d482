#include "train/record/run_record.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/log.h"
#include "train/scratch.h"
#include "train/small_run.h"

namespace tandem {
namespace {

class RunRecordTest : public ScratchTest {
 protected:
  ~RunRecordTest() override { close_log_file(); }

  std::vector<nlohmann::json> records() const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(get(path("metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      found.push_back(nlohmann::json::parse(line));
    }
    return found;
  }

  /// The values of one tag in the event file: each lies behind its tag (Summary.Value's field 2).
  std::vector<float> scalars(const std::string& tag) const {
    std::string bytes;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      if (each.path().filename().string().starts_with("events.")) bytes = get(each.path());
    }
    const std::string key = static_cast<char>(tag.size()) + tag + '\x15';
    std::vector<float> values;
    for (std::size_t at = 0; (at = bytes.find(key, at)) != std::string::npos; at += key.size()) {
      std::memcpy(&values.emplace_back(), bytes.data() + at + key.size(), sizeof(float));
    }
    return values;
  }

  static std::string start_again() { return "start again"; }

  static Interval interval(std::optional<double> norm) {
    return {.sums = {.loss = 24.0, .samples = 16, .top1 = 4, .top5 = 8},
            .steps = 1,
            .gradient_norm = norm,
            .seconds = 0.5};
  }
};

TEST_F(RunRecordTest, TheGradientNormIsWhereItWasMeasured) {
  RunRecord record(folder_, small_run(), true, {}, start_again);
  record.train(1, 1, interval({}), 0.1);
  record.train(1, 2, interval(3.25), 0.1);
  record.train(1, 3, interval(0.5), 0.1);
  EXPECT_FALSE(records().at(0).contains("gradient_norm"));
  EXPECT_EQ(records().at(1)["gradient_norm"], 3.25);
  EXPECT_EQ(scalars("train/gradient_norm"), (std::vector<float>{3.25F, 0.5F}));
  EXPECT_EQ(scalars("train/loss"), (std::vector<float>{1.5F, 1.5F, 1.5F}));
}

TEST_F(RunRecordTest, WhatAGpuDoesNotTellIsUnavailable) {
  RunRecord record(folder_, small_run(), true, {}, start_again);
  Interval on_gpu = interval({});
  on_gpu.gpu = GpuStretch{.activity = {.sm_activity = 0.75,
                                       .sm_occupancy = 0.5,
                                       .tensor_activity = 0.0,
                                       .energy_joules = 312.5},
                          .seconds = 2.5,
                          .training_seconds = 2.25,
                          .samples = 32};  // an interval before was too short
  record.train(1, 1, interval({}), 0.1);
  record.train(1, 2, on_gpu, 0.1);
  on_gpu.gpu = GpuStretch{};
  record.train(1, 3, on_gpu, 0.1);
  EXPECT_FALSE(records().at(0).contains("sm_activity"));
  EXPECT_FALSE(records().at(0).contains("energy_joules"));
  const nlohmann::json told = records().at(1);
  EXPECT_EQ(told["sm_activity"], 0.75);
  EXPECT_EQ(told["sm_occupancy"], 0.5);
  EXPECT_EQ(told["tensor_activity"], 0.0);
  EXPECT_EQ(told["dram_activity"], "unavailable");
  EXPECT_EQ(told["energy_joules"], 312.5);
  EXPECT_EQ(told["gpu_seconds"], 2.5);
  EXPECT_EQ(told["gpu_training_seconds"], 2.25);
  EXPECT_EQ(told["joules_per_1000_images"], 9765.625);
  for (const char* field : {"sm_activity", "sm_occupancy", "tensor_activity", "dram_activity",
                            "energy_joules", "joules_per_1000_images"}) {
    EXPECT_EQ(records().at(2)[field], "unavailable") << field;
  }
  EXPECT_EQ(scalars("gpu/sm_activity"), std::vector<float>{0.75F});
  EXPECT_EQ(scalars("gpu/tensor_activity"), std::vector<float>{0.0F});
  EXPECT_TRUE(scalars("gpu/dram_activity").empty());
  EXPECT_EQ(scalars("gpu/energy_joules"), std::vector<float>{312.5F});
}

TEST_F(RunRecordTest, TheTimeWaitedForGradientsIsTold) {
  RunRecord record(folder_, small_run(), true, {}, start_again);
  Interval waited = interval({});
  waited.exposed_communication_seconds = 0.25;
  record.train(1, 1, waited, 0.1);
  EXPECT_EQ(records().at(0)["exposed_communication_seconds"], 0.25);
  EXPECT_EQ(scalars("train/exposed_communication_seconds"), std::vector<float>{0.25F});
}

TEST_F(RunRecordTest, SkippedSamplesAreScalarsWhereTheyMayBeSkipped) {
  RunConfig config = small_run();
  config.data.skip_bad_samples = true;
  RunRecord record(folder_, config, true, {}, start_again);
  record.evaluation(1, 6, {.samples = 30, .skipped = 7}, false);
  record.bad_samples(1, 6, 9, 5);
  EXPECT_EQ(records().at(0)["skipped"], 7);
  EXPECT_EQ(records().at(1)["distinct"], 5);
  EXPECT_EQ(scalars("evaluation/skipped"), std::vector<float>{7.0F});
  EXPECT_EQ(scalars("bad_samples/skipped"), std::vector<float>{9.0F});
  EXPECT_EQ(scalars("bad_samples/distinct"), std::vector<float>{5.0F});
}

TEST_F(RunRecordTest, SkippedSamplesAreCountedInWords) {
  RunConfig config = small_run();
  config.data.skip_bad_samples = true;
  RunRecord record(folder_, config, true, {}, start_again);
  record.bad_samples(1, 6, 1, 1);
  record.bad_samples(2, 12, 9, 5);
  const std::string log = get(path("train.log"));
  EXPECT_NE(log.find("epoch 1: unreadable samples were skipped once; 1 is listed"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("epoch 2: unreadable samples were skipped 9 times; 5 are listed"),
            std::string::npos)
      << log;
}

TEST_F(RunRecordTest, OtherRunsHaveNoCurveOfZeros) {
  RunRecord record(folder_, small_run(), true, {}, start_again);
  record.evaluation(1, 6, {.samples = 37}, false);
  EXPECT_EQ(scalars("evaluation/loss").size(), 1U);
  EXPECT_TRUE(scalars("evaluation/skipped").empty());
}

TEST_F(RunRecordTest, TheEndIsRecordedWithItsReason) {
  RunRecord record(folder_, small_run(), true, {}, start_again);
  record.end(RunEnding::finished, 12, 12, "");
  record.end(RunEnding::early_stop, 6, 12, "top1 stands still");
  record.end(RunEnding::stopped, 3, 12, "SIGTERM");
  std::istringstream lines(get(path("metrics.jsonl")));
  const char* expected[] = {
      R"({"event": "end", "ending": "finished", "step": 12, "steps": 12})",
      R"({"event": "end", "ending": "early_stop", "step": 6, "steps": 12, "reason": "top1 stands still"})",
      R"({"event": "end", "ending": "stopped", "step": 3, "steps": 12, "reason": "SIGTERM"})"};
  for (const char* line : expected) {
    std::string found;
    std::getline(lines, found);
    EXPECT_EQ(found, line);
  }
}

TEST_F(RunRecordTest, OtherRanksWriteNothing) {
  RunRecord record(folder_, small_run(), false, {}, start_again);
  record.train(1, 1, interval(1.0), 0.1);
  record.end(RunEnding::finished, 12, 12, "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace tandem
