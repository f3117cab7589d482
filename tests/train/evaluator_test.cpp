#include "train/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "data/data_config.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "parallel/mpi_test.h"
#include "parallel/self_communicator.h"
#include "train/small_run.h"

// Every sample counts once, whatever the number of ranks: the ranks together against one rank that
// looks at one sample after the other.

namespace tandem {
namespace {

/// Sums of float losses in another order; measured: 1e-16.
constexpr double tolerance = 1e-12;

struct Model {
  RunConfig config = small_run();
  AnyContext context{CpuContext(1)};
  std::unique_ptr<Dataset> test;
  Transform transform = make_transform(config.data, false);
  std::optional<Graph> graph;
  std::optional<ParameterStore> store;

  explicit Model(std::int64_t size) {
    config.data.test_size = size;
    test = open_test_dataset(config.data);
    graph = fuse(load_model(find_model("resnet8"), {.classes = 4, .channels = 1, .size = 8}));
    store.emplace(*graph, context, false);
    store->initialize(7);
  }
  Evaluation evaluate(Communicator& communicator, std::int64_t batch) {
    return evaluator(communicator, batch).run();
  }
  Evaluator evaluator(Communicator& communicator, std::int64_t batch,
                      std::span<std::byte> spare = {}) {
    return {*test,
            transform,
            *graph,
            *store,
            context,
            communicator,
            {.batch = batch, .loading = {.workers = 2}, .spare = spare}};
  }
};

/// The definition, without sampler and loader.
LossSums one_by_one(Model& model) {
  StepPlan plan(*model.graph, *model.store, model.context, {.batch = 1});
  std::vector<float> pixels(static_cast<std::size_t>(model.transform.output_elements()));
  LossSums sums;
  for (std::int64_t i = 0; i < model.test->size(); ++i) {
    RandomStream unused(0, 0);
    model.transform.apply(*model.test->open(i), unused, pixels.data());
    std::int32_t label = model.test->label(i);
    sums += plan.forward(Tensor(pixels.data(), {1, 8, 8, 1}), {Tensor(&label, {1}, DType::i32)}, 1);
  }
  return sums;
}

TEST(Evaluator, CountsEverySampleOnceAtAnyNumberOfRanks) {
  for (const std::int64_t size : {1, 2, 7, 24, 37, 64}) {
    Model model(size);
    const LossSums expected = one_by_one(model);
    ASSERT_EQ(expected.samples, size);
    const auto count = static_cast<double>(size);
    for (const std::int64_t batch : {1, 5, 8, 64}) {
      const Evaluation found = model.evaluate(world(), batch);
      EXPECT_EQ(found.samples, size);
      EXPECT_EQ(found.top1, static_cast<double>(expected.top1) / count);
      EXPECT_EQ(found.top5, static_cast<double>(expected.top5) / count);
      // A batch of another size takes other kernels, which round otherwise.
      EXPECT_NEAR(found.loss, expected.loss / count, 1e-6 * std::abs(expected.loss / count));
      SelfCommunicator alone;
      const Evaluation one = model.evaluate(alone, batch);
      EXPECT_EQ(found.samples, one.samples);
      EXPECT_EQ(found.top1, one.top1);
      EXPECT_NEAR(found.loss, one.loss, tolerance * one.loss) << size << " in batches of " << batch;
      expect_same_everywhere(fmt::format("{} {} {}", found.loss, found.top1, found.top5));
    }
  }
}

TEST(Evaluator, IsVoidOnAllRanksWhereOneStops) {
  Model model(37);
  Evaluator evaluator = model.evaluator(world(), 4);
  const Evaluation whole = evaluator.run();
  int batches = 0;
  const bool stops = world().rank() == world().size() - 1;
  EXPECT_FALSE(evaluator.run_unless([&](std::int64_t) { return stops && ++batches == 2; }));
  EXPECT_EQ(batches, stops ? 2 : 0);
  const std::optional<Evaluation> again = evaluator.run_unless([](std::int64_t) { return false; });
  ASSERT_TRUE(again);
  EXPECT_EQ(again->loss, whole.loss);
}

TEST(Evaluator, TellsHowFarItIs) {
  Model model(37);
  Evaluator evaluator = model.evaluator(world(), 4);
  std::vector<std::int64_t> told;
  const Evaluation found = evaluator.run([&](std::int64_t done) { told.push_back(done); });
  EXPECT_EQ(evaluator.samples(), 37);
  EXPECT_EQ(found.samples, 37);
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told.front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  // A rank has up to a batch less than the first, which is the one that tells.
  EXPECT_GT(told.back(), 37 - 4 * world().size());
  EXPECT_LE(told.back(), 37);
  if (world().rank() == 0) {
    EXPECT_EQ(told.back(), 37);
  }
}

TEST(Evaluator, TakesSpareMemory) {
  Model model(37);
  const double loss = model.evaluate(world(), 8).loss;
  const std::size_t own = model.evaluator(world(), 8).activation_bytes();
  ASSERT_GT(own, 0U);
  for (const std::size_t bytes : {own + Arena::alignment, own / 2}) {
    Arena memory(model.context, bytes, "a test");
    Evaluator evaluator = model.evaluator(world(), 8, {memory.data(), memory.bytes()});
    if (bytes > own) {
      EXPECT_EQ(evaluator.activation_bytes(), 0U);
    } else {
      EXPECT_LT(evaluator.activation_bytes(), own);
    }
    for (int run = 0; run < 2; ++run) {
      std::memset(memory.data(), 0xff, memory.bytes());  // whatever was there
      EXPECT_EQ(evaluator.run().loss, loss);
    }
  }
}

TEST(Evaluator, RepeatsItself) {
  Model model(37);
  const Evaluation first = model.evaluate(world(), 8);
  EXPECT_EQ(model.evaluate(world(), 8).loss, first.loss);
}

}  // namespace
}  // namespace tandem
