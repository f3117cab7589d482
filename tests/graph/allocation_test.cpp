#include <gtest/gtest.h>

#include <memory>

#include "graph/fusion.h"
#include "graph/small_models.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/normalisation/batch_norm.h"
#include "support/allocations.h"

namespace tandem {
namespace {

/// Calls of operator new during a step that follows two others.
long allocations_of_a_step(const Graph& graph, int threads, const NamePrefixes& frozen = {},
                           RankSum* rank_sum = nullptr) {
  AnyContext context = cpu(threads);
  ParameterStore store(graph, context, true, frozen);
  store.initialize(1);
  StepPlan plan(graph, store, context,
                {.batch = 4, .training = true, .accumulation = true, .rank_sum = rank_sum});
  const Batch batch(graph, 4, 1);
  const StepPlan::Progress progress = [](std::span<const std::size_t>) {};
  const auto step = [&](bool accumulate) {
    plan.forward(batch.images(), batch.targets(), 4);
    plan.backward(accumulate, progress);
  };
  step(false);
  step(true);
  return allocations_of([&] {
    step(false);
    step(true);
  });
}

/// Two ranks that do the same.
class TwinSum final : public RankSum {
 public:
  int ranks() const override { return 2; }
  void reserve(std::size_t) override {}
  void sum(std::span<double> values) override {
    for (double& value : values) value *= 2.0;
  }
};

/// Without a primitive of oneDNN all code that runs is ours.
TEST(Allocation, OursIsNone) {
  Graph graph("ours", {1, 24});
  const int norm =
      graph.add("norm", std::make_shared<BatchNorm>(BatchNormOptions{}), {Node::model_input});
  const int relu = graph.add("relu", std::make_shared<ActivationLayer>(Activation::relu), {norm});
  const int other = graph.add("other", std::make_shared<BatchNorm>(BatchNormOptions{}), {relu});
  const int sum = graph.add("sum", std::make_shared<Add>(), {other, relu});
  graph.add("twice", std::make_shared<Add>(), {sum, sum});
  TwinSum twins;
  for (const int threads : {1, 2}) {
    EXPECT_EQ(allocations_of_a_step(graph, threads), 0);
    EXPECT_EQ(allocations_of_a_step(graph, threads, NamePrefixes({"norm"})), 0);
    EXPECT_EQ(allocations_of_a_step(graph, threads, {}, &twins), 0);
  }
}

/// oneDNN allocates to pass a primitive's arguments on, about four times an execution (2.6), and
/// frees it again: two passes of resnet8 execute 114 primitives. Nothing grows from step to step.
TEST(Allocation, OneDnnsIsAFewCallsAPrimitive) {
  for (const Graph& graph : {zoo_model("resnet8"), fuse(zoo_model("resnet8"))}) {
    const long calls = allocations_of_a_step(graph, 1);
    RecordProperty("allocations", static_cast<int>(calls));
    EXPECT_LE(calls, 114 * 10);
    EXPECT_EQ(allocations_of_a_step(graph, 1), calls);
  }
}

}  // namespace
}  // namespace tandem
