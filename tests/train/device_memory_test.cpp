#include <gtest/gtest.h>

#include "device/arena.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"
#include "graph/fusion.h"
#include "support/message.h"
#include "train/device_run.h"
#include "train/step/too_large_step.h"

// What is said where a GPU has not the memory for a step, before anything is timed or trained.

namespace tandem {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30U;

RawInput raw_input(const RunConfig& config, std::int64_t batch) {
  return {RawBatchLayout({.height = 8, .width = 8, .channels = 1}, static_cast<int>(batch), false),
          InputSpec(make_transform(config.data, true))};
}

/// Of a replica of `batch` samples.
std::string message_for(AnyContext& gpu, std::int64_t batch) {
  const RunConfig config = run_with({});
  SelfCommunicator self;
  const RawInput raw = raw_input(config, batch);
  return message_of<InputError>(
      [&] { Replica(config, smooth_graph(config, 4), batch, gpu, self, self, raw); });
}

/// The number in front of " samples at once fit".
std::int64_t advised(const std::string& message) {
  const std::size_t end = message.find(" samples at once fit");
  if (end == std::string::npos) return -1;
  const std::size_t begin = message.rfind(' ', end - 1) + 1;
  return std::stoll(message.substr(begin, end - begin));
}

TEST(DeviceMemoryMessage, SaysWhatIsNeededAndWhatFits) {
  AnyContext gpu = open_gpu(0);
  constexpr std::int64_t batch = std::int64_t{1} << 26U;
  const std::string message = message_for(gpu, batch);
  EXPECT_EQ(
      message.rfind("a training step of 67108864 samples at once does not fit the memory of " +
                        device_text(gpu),
                    0),
      0U)
      << message;
  EXPECT_NE(message.find("lower train.global_batch or data.size, or raise train.accumulate"),
            std::string::npos)
      << message;
  EXPECT_GT(advised(message), 0) << message;
  EXPECT_LT(advised(message), batch) << message;
}

TEST(DeviceMemoryMessage, AdvisesWhatDoesFitWhereOthersFillTheDevice) {
  AnyContext gpu = open_gpu(0);
  const DeviceMemory memory = device_memory(gpu).value();
  if (memory.free < 6 * gib) GTEST_SKIP() << "less than 6 GiB are free";
  // All but 2 GiB are somebody else's.
  const Arena taken(gpu, memory.free - 2 * gib, "a test");
  constexpr std::int64_t batch = std::int64_t{1} << 19U;
  const std::string message = message_for(gpu, batch);
  const std::int64_t fits = advised(message);
  ASSERT_GT(fits, 0) << message;
  EXPECT_NE(message.find("nvidia-smi shows who has the rest"), std::string::npos) << message;
  // About: kernels' scratch is not known before they are chosen.
  EXPECT_EQ(message_for(gpu, fits / 4 * 3), "nothing was thrown");
}

TEST(DeviceMemoryMessage, AShareOfNothingIsNotAllOfTheMemory) {
  AnyContext gpu = open_gpu(0);
  const RunConfig config = run_with({});
  const Graph graph = fuse(smooth_graph(config, 4));
  ParameterStore store(graph, gpu, false, {}, config.precision);
  StepPlanOptions options{.precision = config.precision};
  EXPECT_NO_THROW(StepPlan(graph, store, gpu, options));
  options.room = 0;
  EXPECT_THROW(StepPlan(graph, store, gpu, options), OutOfMemory);
}

TEST(DeviceMemory, OneRankThatAddsNothingUpHasGradientsOfABucketAtATime) {
  AnyContext gpu = open_gpu(0);
  SelfCommunicator self;
  for (const bool accumulates : {false, true}) {
    const RunConfig config = run_with(accumulates ? std::vector<std::string>{"train.accumulate=2"}
                                                  : std::vector<std::string>{});
    const Replica replica(config, smooth_graph(config, 4), 4, gpu, self, self,
                          raw_input(config, 4));
    EXPECT_EQ(replica.plan().gradient_memory(),
              accumulates ? GradientMemory::stored : GradientMemory::passing);
  }
}

}  // namespace
}  // namespace tandem
