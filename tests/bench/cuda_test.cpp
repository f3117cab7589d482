#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_run.h"
#include "parallel/self_communicator.h"
#include "support/repeats.h"
#include "support/scoped_variable.h"
#include "train/small_run.h"

namespace tandem {
namespace {

TEST(BenchCudaTest, MeasuresACapturedStep) {
  SelfCommunicator self;
  const RunConfig config = small_run("device = \"cuda\"\nprecision = \"bf16\"\naccumulate = 2\n");
  const BenchResult result = run_bench(config, {.seconds = 1.0}, self);
  ASSERT_EQ(result.ranks.size(), 1U);
  EXPECT_GT(result.alone.seconds, 0.0);
  EXPECT_GT(result.with_loader.seconds, 0.0);
  // A tool that looks at every kernel slows them down.
  const double slower = repeats(2) == 1 ? 100.0 : 1.0;
  for (const StepPhase phase :
       {StepPhase::input, StepPhase::forward, StepPhase::backward, StepPhase::update}) {
    const auto at = static_cast<std::size_t>(phase);
    EXPECT_GT(result.times.phases[at], 0.0) << phase_names[at];
    EXPECT_LT(result.times.phases[at], slower) << phase_names[at];
  }
  EXPECT_GT(result.times.recording_seconds, 0.0);
  EXPECT_LT(result.times.recording_seconds, 1e-4);
  for (const LayerTime& layer : result.times.layers) {
    EXPECT_GE(layer.seconds(), 0.0) << layer.name;
    EXPECT_TRUE(layer.floor_seconds) << layer.name;
  }
  EXPECT_GT(slower * result.ceilings.bytes_per_second.value(), 1e11);
  for (const Precision precision : all_precisions) {
    EXPECT_GT(slower * result.ceilings.operations(precision).value(), 1e12) << name_of(precision);
  }
  EXPECT_GT(result.device_bytes.value(), result.activation_bytes);
  EXPECT_TRUE(result.gpu);  // read over half a second or more
}

TEST(BenchCudaTest, SaysWhichNormalisationsAreLeftToTheirReaders) {
  SelfCommunicator self;
  const RunConfig config = read_run_config(ConfigTable::from_text(R"([model]
name = "mobilenet_v2"
[data]
kind = "synthetic"
train_size = 128
test_size = 1
height = 64
width = 64
channels = 3
classes = 4
[train]
epochs = 1
global_batch = 64
device = "cuda"
precision = "bf16"
[optimizer]
kind = "sgd"
lr = 0.05
)",
                                                                  "run.toml"));
  // By size: whether a step is faster so is for timing to say.
  std::optional<ScopedVariable> off;
  if (std::getenv("TANDEM_TUNE") == nullptr) off.emplace("TANDEM_TUNE", "off");
  const BenchResult result = run_bench(config, {.seconds = 0.1}, self);
  const auto left = [](const LayerTime& layer) { return layer.what.ends_with(" act deferred"); };
  // Large ones alone; the last blocks' fit the registers.
  EXPECT_GE(std::ranges::count_if(result.times.layers, left), 2);
  EXPECT_LT(std::ranges::count_if(result.times.layers, left), 17);
  EXPECT_TRUE(result.on_gpus());
}

}  // namespace
}  // namespace tandem
