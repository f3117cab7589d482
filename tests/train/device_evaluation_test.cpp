#include <gtest/gtest.h>

#include "data/data_config.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "graph/fusion.h"
#include "support/message.h"
#include "train/device_run.h"
#include "train/evaluator.h"

// An evaluation on a GPU, of raw batches, against the CPU's of floats.

namespace tandem {
namespace {

Evaluation evaluate(const RunConfig& config, AnyContext& context, std::int64_t batch) {
  const std::unique_ptr<Dataset> test = open_test_dataset(config.data);
  const Transform transform = make_transform(config.data, false);
  const Graph graph = fuse(smooth_graph(config, test->classes()));
  ParameterStore store(graph, context, false, {}, config.precision);
  store.initialize(7);
  store.update_weights();
  SelfCommunicator self;
  const auto make = [&](std::span<std::byte> spare) {
    return std::make_unique<Evaluator>(*test, transform, graph, store, context, self,
                                       EvaluatorOptions{.batch = batch,
                                                        .loading = {.workers = 2},
                                                        .precision = config.precision,
                                                        .spare = spare});
  };
  const std::unique_ptr<Evaluator> evaluator = make({});
  const Evaluation first = evaluator->run();
  EXPECT_EQ(evaluator->run().loss, first.loss) << "once more";
  constexpr std::size_t room_for_images = std::size_t{1} << 20U;
  const Arena memory(context, evaluator->activation_bytes() + room_for_images, "a test");
  const std::unique_ptr<Evaluator> lodger = make({memory.data(), memory.bytes()});
  EXPECT_EQ(lodger->activation_bytes(), 0U);
  for (int run = 0; run < 2; ++run) {
    const std::vector<std::byte> ones(memory.bytes(), std::byte{0xff});
    copy_to_device(context, ones.data(), ones.size(), memory.data());
    synchronize(context);
    EXPECT_EQ(lodger->run().loss, first.loss) << "in spare memory that held NaN";
  }
  return first;
}

void expect_as_on_the_cpu(const std::vector<std::string>& settings, double tolerance) {
  RunConfig config = run_with(settings);
  AnyContext gpu = open_gpu(0);
  AnyContext cpu(std::in_place_type<CpuContext>, 1);
  for (const std::int64_t batch : {1, 5, 8, 64}) {  // of 37 samples
    const Evaluation found = evaluate(config, gpu, batch);
    RunConfig exact = config;
    exact.precision = Precision::fp32;
    const Evaluation expected = evaluate(exact, cpu, batch);
    EXPECT_EQ(found.samples, 37);
    EXPECT_NEAR(found.loss, expected.loss, tolerance * expected.loss) << "batches of " << batch;
    EXPECT_NEAR(found.top1, expected.top1, 2.5 / 37) << "batches of " << batch;
    EXPECT_EQ(found.top5, expected.top5);  // there are four classes
  }
}

TEST(DeviceEvaluation, IsTheCpus) { expect_as_on_the_cpu({}, 1e-4); }
TEST(DeviceEvaluation, IsTheCpusInColour) { expect_as_on_the_cpu({"data.channels=3"}, 1e-4); }
TEST(DeviceEvaluation, IsTheCpusOfCentres) {
  expect_as_on_the_cpu({"data.height=13", "data.width=11", "data.size=8", "data.resize=10"}, 1e-4);
}
TEST(DeviceEvaluation, IsAboutTheCpusInOtherPrecisions) {
  for (const char* precision : {"tf32", "bf16", "fp16"}) {
    expect_as_on_the_cpu({"train.precision=\"" + std::string(precision) + "\""}, 0.02);
  }
}

TEST(DeviceEvaluation, SaysWhatFits) {
  const RunConfig config = run_with({});
  AnyContext gpu = open_gpu(0);
  const std::string message =
      message_of<InputError>([&] { evaluate(config, gpu, std::int64_t{1} << 27U); });
  EXPECT_EQ(message.rfind("an evaluation step of 134217728 samples at once does not fit", 0), 0U)
      << message;
  EXPECT_NE(message.find(" samples at once fit: set train.eval_batch"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace tandem
