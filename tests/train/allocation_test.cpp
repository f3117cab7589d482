#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/step_plan.h"
#include "layers/normalisation/batch_norm.h"
#include "parallel/mpi_test.h"
#include "support/allocations.h"
#include "train/step/communicator_sum.h"
#include "train/step/weight_average.h"

// What a training step does beside the plan, the optimizer and the buckets, which have such tests
// of their own. MPI's messages come from its own memory, which operator new knows nothing of.

namespace tandem {
namespace {

/// Those of `work`, which all ranks do, where none of them waits for long: one that does tells what
/// for, in memory that it takes then. With fewer cores than ranks that takes several tries.
template <typename Work>
long allocations_without_waits(const Work& work) {
  for (int tries = 0; tries < 200; ++tries) {
    world().barrier();
    const auto start = std::chrono::steady_clock::now();
    const long found = allocations_of(work);
    const std::chrono::duration<float> passed = std::chrono::steady_clock::now() - start;
    std::vector<float> longest{passed.count()};
    world().all_reduce(view(longest), ReduceOp::max);
    if (longest[0] < 0.05F) return found;
  }
  ADD_FAILURE() << "a rank waited for long in every try";
  return 0;
}

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
  std::vector<double> values(200);
  for (const std::size_t count : {200U, 3U, 200U}) {
    const std::span<double> part(values.data(), count);
    const long found = allocations_without_waits([&] {
      std::ranges::fill(part, 1.0);
      sum.sum(part);
    });
    EXPECT_EQ(found, 0) << count;
    EXPECT_EQ(part.back(), world().size());
  }
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
    const long found = allocations_without_waits([&] {
      plan.forward(Tensor(rows.data(), {4, 24}), {Tensor(labels.data(), {4}, DType::i32)}, 4);
      plan.backward(false, progress);
    });
    EXPECT_EQ(found, 0) << "step " << step;
  }
}

}  // namespace
}  // namespace tandem
