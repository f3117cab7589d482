#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <utility>

#include "base/error.h"
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

/// A test set with samples that cannot be read until it is mended.
class BrokenSamples final : public Dataset {
 public:
  BrokenSamples(const Dataset& whole, std::set<std::int64_t> broken)
      : whole_(whole), broken_(std::move(broken)) {}

  std::int64_t size() const override { return whole_.size(); }
  int classes() const override { return whole_.classes(); }
  int channels() const override { return whole_.channels(); }
  std::optional<ImageExtents> extents() const override { return whole_.extents(); }
  std::int32_t label(std::int64_t index) const override { return whole_.label(index); }
  std::string describe(std::int64_t index) const override { return whole_.describe(index); }
  std::vector<std::string> class_names() const override { return whole_.class_names(); }
  Image load(std::int64_t index) const override {
    if (!mended && broken_.contains(index)) input_error("sample {} is broken", index);
    return whole_.load(index);
  }

  std::atomic<bool> mended = false;

 private:
  const Dataset& whole_;
  std::set<std::int64_t> broken_;
};

struct Model {
  Model(const RunConfig& run, AnyContext& device)
      : config(run),
        context(device),
        test(open_test_dataset(config.data)),
        transform(make_transform(config.data, false)),
        graph(fuse(smooth_graph(config, test->classes()))),
        store(graph, context, false, {}, config.precision) {
    draw(7);
  }

  void draw(std::uint64_t seed) {
    store.initialize(seed);
    store.update_weights();
  }
  std::unique_ptr<Evaluator> evaluator(std::int64_t batch, std::span<std::byte> spare = {}) {
    return evaluator_of(*test, false, batch, spare);
  }
  std::unique_ptr<Evaluator> evaluator_of(const Dataset& data, bool skip_bad, std::int64_t batch,
                                          std::span<std::byte> spare = {}) {
    return std::make_unique<Evaluator>(
        data, transform, graph, store, context, self,
        EvaluatorOptions{.batch = batch,
                         .loading = {.workers = 2, .skip_bad = skip_bad},
                         .precision = config.precision,
                         .spare = spare});
  }

  RunConfig config;
  AnyContext& context;
  SelfCommunicator self;
  std::unique_ptr<Dataset> test;
  Transform transform;
  Graph graph;
  ParameterStore store;
};

Evaluation evaluate(const RunConfig& config, AnyContext& context, std::int64_t batch) {
  Model model(config, context);
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(batch);
  const Evaluation first = evaluator->run();
  EXPECT_EQ(evaluator->run().loss, first.loss) << "once more";
  constexpr std::size_t room_for_images = std::size_t{1} << 20U;
  const Arena memory(context, evaluator->activation_bytes() + room_for_images, "a test");
  const std::unique_ptr<Evaluator> lodger = model.evaluator(batch, {memory.data(), memory.bytes()});
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

TEST(DeviceEvaluation, FollowsTheWeights) {
  AnyContext gpu = open_gpu(0);
  for (const char* precision : {"fp32", "bf16"}) {
    Model model(run_with({"train.precision=\"" + std::string(precision) + "\""}), gpu);
    const std::unique_ptr<Evaluator> evaluator = model.evaluator(8);
    const double first = evaluator->run().loss;
    model.draw(8);
    const double then = evaluator->run().loss;
    EXPECT_NE(then, first) << precision;
    EXPECT_EQ(then, model.evaluator(8)->run().loss) << precision;
  }
}

TEST(DeviceEvaluation, LeavesNothingBehindWhereItIsStopped) {
  AnyContext gpu = open_gpu(0);
  Model model(run_with({}), gpu);
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(4);
  const double whole = evaluator->run().loss;
  for (const int last : {1, 2, 4, 8}) {
    int batches = 0;
    EXPECT_FALSE(evaluator->run_unless([&](std::int64_t) { return ++batches > last; }));
    EXPECT_EQ(evaluator->run().loss, whole) << "behind one of " << last << " batches";
  }
}

TEST(DeviceEvaluation, LeavesOutWhatCannotBeRead) {
  AnyContext gpu = open_gpu(0);
  AnyContext cpu(std::in_place_type<CpuContext>, 1);
  // With batches of four: one that is short, then one with nothing to count, both amid whole ones.
  const std::set<std::int64_t> broken{5, 12, 13, 14, 15};
  const auto evaluated = [&](AnyContext& context) {
    Model model(run_with({}), context);
    const BrokenSamples data(*model.test, broken);
    const std::unique_ptr<Evaluator> evaluator = model.evaluator_of(data, true, 4);
    const Evaluation first = evaluator->run();
    EXPECT_EQ(evaluator->run().loss, first.loss);
    EXPECT_EQ(first.samples, 32);
    EXPECT_EQ(first.skipped, 5);
    return first.loss;
  };
  const double expected = evaluated(cpu);
  EXPECT_NEAR(evaluated(gpu), expected, 1e-4 * expected);
}

TEST(DeviceEvaluation, LeavesNothingBehindWhereASampleCannotBeRead) {
  AnyContext gpu = open_gpu(0);
  Model model(run_with({}), gpu);
  const double whole = model.evaluator(4)->run().loss;
  BrokenSamples data(*model.test, {30});
  const std::unique_ptr<Evaluator> evaluator = model.evaluator_of(data, false, 4);
  const std::string message = message_of<InputError>([&] { evaluator->run(); });
  EXPECT_NE(message.find("sample 30 is broken"), std::string::npos) << message;
  data.mended = true;
  EXPECT_EQ(evaluator->run().loss, whole);
  // And one that ends with batches under way.
  data.mended = false;
  const std::unique_ptr<Evaluator> other = model.evaluator_of(data, false, 4);
  EXPECT_THROW(other->run(), InputError);
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
