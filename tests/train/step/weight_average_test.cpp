#include "train/step/weight_average.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "graph/fusion.h"
#include "graph/model_file.h"

namespace tandem {
namespace {

TEST(WeightAverage, DecaysAsItsDefinitionSays) {
  AnyContext context(std::in_place_type<CpuContext>, 2);
  const Graph graph = fuse(load_model(find_model("resnet8"), {}));
  ParameterStore trained(graph, context, false);
  trained.initialize(1);
  for (const bool warmup : {false, true}) {
    WeightAverage average(graph, context, {}, {.decay = 0.7, .warmup = warmup});
    average.start_from(trained);
    std::vector<std::vector<double>> expected;
    for (const Tensor& each : {trained.all_values(), trained.all_buffers()}) {
      expected.emplace_back(each.span<float>().begin(), each.span<float>().end());
    }
    for (int step = 1; step <= 12; ++step) {
      const double decay = warmup ? std::min(0.7, (1.0 + step) / (10.0 + step)) : 0.7;
      RandomStream random(3, "step " + std::to_string(step));
      std::size_t arena = 0;
      for (const Tensor& each : {trained.all_values(), trained.all_buffers()}) {
        for (std::size_t i = 0; i < expected[arena].size(); ++i) {
          const float value = random.normal();
          each.data<float>()[i] = value;
          expected[arena][i] = decay * expected[arena][i] + (1.0 - decay) * value;
        }
        ++arena;
      }
      average.update(trained, step);
    }
    const Tensor found[] = {average.store().all_values(), average.store().all_buffers()};
    for (std::size_t arena = 0; arena < 2; ++arena) {
      for (std::size_t i = 0; i < expected[arena].size(); ++i) {
        ASSERT_NEAR(found[arena].data<float>()[i], expected[arena][i], 2e-6) << warmup << ' ' << i;
      }
    }
  }
}

TEST(WeightAverage, WhatDoesNotMoveStaysToTheBit) {
  AnyContext context(std::in_place_type<CpuContext>, 1);
  const Graph graph = fuse(load_model(find_model("resnet8"), {}));
  ParameterStore trained(graph, context, false);
  trained.initialize(1);
  WeightAverage average(graph, context, {}, {.decay = 0.999});
  average.start_from(trained);
  for (int step = 1; step <= 100; ++step) average.update(trained, step);
  const std::span<const float> a = average.store().all_values().span<float>();
  const std::span<const float> b = trained.all_values().span<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

}  // namespace
}  // namespace tandem
