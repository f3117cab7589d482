#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/step_plan.h"
#include "layers/batch_norm.h"
#include "parallel/mpi_test.h"
#include "support/allocations.h"
#include "train/communicator_sum.h"
#include "train/weight_average.h"

// What a training step does beside the plan, the optimizer and the buckets, which have such tests
// of their own. MPI's messages come from its own memory, which operator new knows nothing of.

namespace tandem {
namespace {

TEST(TrainAllocation, TheWeightsAverageFollowsWithoutAny) {
  for (const int threads : {1, 2}) {
    AnyContext context(std::in_place_type<CpuContext>, threads);
    const Graph graph = fuse(load_model(find_model("resnet8"), {}));
    ParameterStore trained(graph, context, false);
    trained.initialize(1);
    WeightAverage average(graph, context, NamePrefixes({"layer2"}),
                          {.decay = 0.99, .warmup = true});
    average.start_from(trained);
    EXPECT_EQ(allocations_of([&] { average.update(trained, 1); }), 0);
    EXPECT_EQ(allocations_of([&] { average.update(trained, 2); }), 0);
  }
}

TEST(TrainAllocation, SumsOverRanksAreReservedOnce) {
  CommunicatorSum sum(world());
  sum.reserve(200);
  std::vector<double> values(200, 1.0);
  for (const std::size_t count : {200U, 3U, 200U}) {
    const std::span<double> part(values.data(), count);
    EXPECT_EQ(allocations_of([&] { sum.sum(part); }), 0) << count;
  }
  EXPECT_EQ(values[0], world().size() * world().size() * world().size());
}

/// After a moment ranks that wait tell their launcher what for.
TEST(TrainAllocation, AWaitForALateRankNeedsNone) {
  CommunicatorSum sum(world());
  sum.reserve(1);
  double value = 1.0;
  const long found = allocations_of([&] {
    if (world().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    sum.sum({&value, 1});
  });
  EXPECT_EQ(found, 0);
  EXPECT_EQ(value, world().size());
}

/// The plan reserves what its steps need, so the first one needs nothing either.
TEST(TrainAllocation, AStepWithSynchronisedNormalisationNeedsNone) {
  Graph graph("norms", {1, 24});
  const int norm =
      graph.add("norm", std::make_shared<BatchNorm>(BatchNormOptions{}), {Node::model_input});
  graph.add("other", std::make_shared<BatchNorm>(BatchNormOptions{}), {norm});
  AnyContext context(std::in_place_type<CpuContext>, 1);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  CommunicatorSum sum(world());
  StepPlan plan(graph, store, context, {.batch = 4, .training = true, .rank_sum = &sum});
  std::vector<float> rows(4 * 24, 0.5F);
  rows[5] = static_cast<float>(world().rank());
  std::vector<std::int32_t> labels{0, 5, 23, 7};
  const StepPlan::Progress progress = [](std::span<const std::size_t>) {};
  for (int step = 1; step <= 3; ++step) {
    const long found = allocations_of([&] {
      plan.forward(Tensor(rows.data(), {4, 24}), {Tensor(labels.data(), {4}, DType::i32)}, 4);
      plan.backward(false, progress);
    });
    EXPECT_EQ(found, 0) << "step " << step;
  }
}

}  // namespace
}  // namespace tandem
