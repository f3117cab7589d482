#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "bench/bench_run.h"
#include "parallel/self_communicator.h"
#include "support/repeats.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"
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
  const double slower = under_a_tool() ? 100.0 : 1.0;
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

// By size: a cluster of blocks holds 16,384 rows at most (layers/normalisation/resident_tiles.h),
// and "wide" has twice as many, "narrow" half of them.
constexpr const char* two_depthwise = R"(
node = [
  {name = "stem", op = "conv2d", out = 8, kernel = 3, padding = 1},
  {name = "stem.bn", op = "batch_norm"},
  {name = "stem.act", op = "relu6"},
  {name = "wide", op = "conv2d", out = 16, kernel = 1},
  {name = "wide.bn", op = "batch_norm"},
  {name = "wide.act", op = "relu6"},
  {name = "first", op = "conv2d", out = 16, kernel = 3, stride = 2, padding = 1, groups = 16},
  {name = "first.bn", op = "batch_norm"},
  {name = "first.act", op = "relu6"},
  {name = "narrow", op = "conv2d", out = 16, kernel = 1},
  {name = "narrow.bn", op = "batch_norm"},
  {name = "narrow.act", op = "relu6"},
  {name = "second", op = "conv2d", out = 16, kernel = 3, padding = 1, groups = 16},
  {name = "second.bn", op = "batch_norm"},
  {name = "second.act", op = "relu6"},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)";

TEST(BenchCudaTest, SaysWhichNormalisationsAreLeftToTheirReaders) {
  const TemporaryFolder folder;
  const std::string model = (folder / "two_depthwise.toml").string();
  std::ofstream(model) << two_depthwise;
  SelfCommunicator self;
  const RunConfig config = read_run_config(ConfigTable::from_text(fmt::format(R"([model]
name = "{}"
[data]
kind = "synthetic"
train_size = 64
test_size = 1
height = 32
width = 32
channels = 3
classes = 4
[train]
epochs = 1
global_batch = 32
device = "cuda"
precision = "bf16"
[optimizer]
kind = "sgd"
lr = 0.05
)",
                                                                              model),
                                                                  "run.toml"));
  const ScopedVariable off("TANDEM_TUNE", "off");
  const BenchResult result = run_bench(config, {.seconds = 0.1}, self);
  std::vector<std::string> left;
  for (const LayerTime& layer : result.times.layers) {
    if (layer.what.ends_with(" deferred")) left.push_back(layer.name);
  }
  EXPECT_EQ(left, std::vector<std::string>{"wide"});
  EXPECT_TRUE(result.on_gpus());
}

}  // namespace
}  // namespace tandem
