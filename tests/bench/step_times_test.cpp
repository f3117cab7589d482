#include "bench/step_times.h"

#include <gtest/gtest.h>

#include "graph/fusion.h"
#include "graph/model_file.h"

namespace tandem {
namespace {

/// Four layers: two convolutions with normalisation, of one kind, a pool and a linear layer.
Graph small_graph() {
  return fuse(parse_model(R"(
channels = 4
size = 8
classes = 5
node = [
  {name = "a", op = "conv2d", out = 4, kernel = 3, padding = 1},
  {name = "an", op = "batch_norm"},
  {name = "b", op = "conv2d", out = 4, kernel = 3, padding = 1},
  {name = "bn", op = "batch_norm"},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                          "small.toml", {}));
}

class StepTimesTest : public testing::Test {
 protected:
  explicit StepTimesTest(NamePrefixes freeze = {})
      : graph_(small_graph()),
        store_(graph_, context_, true, freeze),
        plan_(graph_, store_, context_, {.batch = 2, .training = true}) {}

  AnyContext context_{CpuContext(1)};
  Graph graph_;
  ParameterStore store_;
  StepPlan plan_;
};

/// The moments of a step of one micro-batch whose layers take 1, 2, 3, ... seconds in their order,
/// `backward` of them in the backward pass.
std::vector<StepMoment> counted_step(int forward, int backward) {
  std::vector<StepMoment> step{{StepPart::start, 0.0}, {StepPart::input, 100.0}};
  double seconds = 0.0;
  for (int i = 0; i < forward; ++i) step.push_back({StepPart::layer, ++seconds});
  step.push_back({StepPart::loss, 200.0});
  for (int i = 0; i < backward; ++i) step.push_back({StepPart::layer, ++seconds});
  step.push_back({StepPart::reduction, 300.0});
  step.push_back({StepPart::update, 400.0});
  return step;
}

TEST_F(StepTimesTest, MomentsGoToTheirPhasesAndLayers) {
  const StepTimes times = sort_moments(graph_, plan_, 1, counted_step(4, 4));
  EXPECT_EQ(times.phases, (PhaseSeconds{100.0, 10.0, 200.0, 26.0, 300.0, 400.0}));
  EXPECT_EQ(sum(times.phases), 1036.0);
  ASSERT_EQ(times.layers.size(), 4U);
  const double forward[] = {1, 2, 3, 4};
  const double backward[] = {8, 7, 6, 5};  // in the other order
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(times.layers[i].forward_seconds, forward[i]) << i;
    EXPECT_EQ(times.layers[i].backward_seconds, backward[i]) << i;
  }
  EXPECT_EQ(times.layers[3].name, "fc");
  EXPECT_EQ(times.layers[0].what, "conv_bn 3x3");
}

TEST(StepTimes, TellOfAFusedJoin) {
  const Graph graph = fuse(parse_model(R"(
channels = 4
size = 8
classes = 3
node = [
  {name = "a", op = "conv2d", out = 4, kernel = 3, padding = 1},
  {name = "an", op = "batch_norm"},
  {name = "ar", op = "relu"},
  {name = "join", op = "shuffle_join", from = ["input", "ar"]},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                                       "join.toml", {}));
  AnyContext context{CpuContext(1)};
  ParameterStore store(graph, context, true);
  const StepPlan plan(graph, store, context, {.batch = 2, .training = true});
  const StepTimes times = sort_moments(graph, plan, 1, counted_step(3, 3));
  EXPECT_EQ(times.layers[0].what, "conv_bn 3x3 act join");
}

TEST_F(StepTimesTest, MicroBatchesAddUp) {
  std::vector<StepMoment> twice = counted_step(4, 4);
  twice.resize(twice.size() - 2);
  const std::vector<StepMoment> second = counted_step(4, 4);
  twice.insert(twice.end(), second.begin() + 1, second.end());
  const StepTimes once = sort_moments(graph_, plan_, 1, second);
  const StepTimes times = sort_moments(graph_, plan_, 2, twice);
  EXPECT_EQ(times.phases, (PhaseSeconds{200.0, 20.0, 400.0, 52.0, 300.0, 400.0}));
  EXPECT_EQ(times.layers[1].seconds(), 2 * once.layers[1].seconds());
  EXPECT_EQ(times.layers[1].bytes(), 2 * once.layers[1].bytes());
}

/// Backward reaches the linear layer alone.
class FrozenStepTimesTest : public StepTimesTest {
 protected:
  FrozenStepTimesTest() : StepTimesTest(NamePrefixes({"a", "an", "b", "bn"})) {}
};

TEST_F(FrozenStepTimesTest, LayersThatBackwardDoesNotReachHaveNoBackwardTime) {
  const StepTimes times = sort_moments(graph_, plan_, 1, counted_step(4, 1));
  EXPECT_EQ(times.layers[3].backward_seconds, 5.0);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(times.layers[i].backward_seconds, 0.0) << i;
    EXPECT_EQ(times.layers[i].cost.backward_bytes, 0.0) << i;
  }
}

TEST_F(StepTimesTest, TheFloorIsTheSlowerOfBytesAndOperations) {
  StepTimes times = sort_moments(graph_, plan_, 1, counted_step(4, 4));
  set_floors(times, {}, Precision::fp32);
  EXPECT_FALSE(times.layers[0].floor_seconds) << "no ceilings";
  Ceilings ceilings{.bytes_per_second = 1.0};
  ceilings.operations_per_second[0] = 1e30;
  set_floors(times, ceilings, Precision::fp32);
  EXPECT_EQ(times.layers[0].floor_seconds, times.layers[0].bytes());
  ceilings = {.bytes_per_second = 1e30};
  ceilings.operations_per_second[0] = 2.0;
  set_floors(times, ceilings, Precision::fp32);
  EXPECT_EQ(times.layers[0].floor_seconds, times.layers[0].operations() / 2.0);
}

TEST_F(StepTimesTest, LayersOfAKindAreSummedTheSlowestFirst) {
  const StepTimes times = sort_moments(graph_, plan_, 1, counted_step(4, 4));
  const std::vector<LayerTime> kinds = by_kind(times.layers);
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[0].what, "conv_bn 3x3");
  EXPECT_EQ(kinds[0].count, 2);
  EXPECT_EQ(kinds[0].seconds(), 18.0);
  EXPECT_EQ(kinds[0].operations(), times.layers[0].operations() + times.layers[1].operations());
  EXPECT_EQ(kinds[1].seconds(), 9.0);
}

TEST(MedianMomentsTest, EachMomentHasItsOwnMedian) {
  const auto step = [](double input, double update) {
    return std::vector<StepMoment>{{StepPart::input, input}, {StepPart::update, update}};
  };
  const std::vector<StepMoment> medians = median_moments({step(1, 30), step(2, 10), step(3, 20)});
  EXPECT_EQ(medians[0].seconds, 2.0);
  EXPECT_EQ(medians[1].seconds, 20.0);
  EXPECT_THROW(median_moments({}), Error);
}

}  // namespace
}  // namespace tandem
