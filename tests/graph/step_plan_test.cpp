#include "graph/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "layers/add.h"
#include "layers/convolution/conv2d.h"
#include "layers/linear/linear.h"
#include "layers/pooling/pool2d.h"
#include "support/message.h"

namespace tandem {
namespace {

std::vector<float> gradients_of(StepPlan& plan, ParameterStore& store, const Batch& batch,
                                bool accumulate) {
  plan.forward(batch.images(), batch.targets(), plan.batch());
  plan.backward(accumulate, {});
  return copy_of(store.all_gradients());
}

TEST(StepPlan, AccumulatedGradientsAreTheSumOfThePasses) {
  const Graph graph = fuse(zoo_model("resnet8"));
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  StepPlan plan(graph, store, context, {.batch = 3, .training = true, .accumulation = true});
  const Batch first(graph, 3, 1);
  const Batch second(graph, 3, 2);
  const std::vector<float> a = gradients_of(plan, store, first, false);
  const std::vector<float> b = gradients_of(plan, store, second, false);
  ASSERT_NE(a, b);
  std::vector<float> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  ASSERT_EQ(gradients_of(plan, store, first, false), a);
  EXPECT_EQ(gradients_of(plan, store, second, true), sum);
}

/// A sum whose kernel loads all that it adds to before it stores anything, as one on a GPU may.
class LoadsFirst final : public Add {
 public:
  std::unique_ptr<LayerKernel> prepare(AnyContext& /*context*/,
                                       const KernelRequest& request) const override {
    return std::make_unique<Kernel>(request);
  }

 private:
  class Kernel final : public LayerKernel {
   public:
    explicit Kernel(KernelRequest request) : request_(std::move(request)) {}

    void forward(const ForwardArgs& args) override {
      const auto out = args.output.span<float>();
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = args.inputs[0].span<float>()[i] + args.inputs[1].span<float>()[i];
      }
    }
    void backward(const BackwardArgs& args) override {
      std::vector<std::vector<float>> before;
      for (const Tensor& gradient : args.input_gradients) before.push_back(copy_of(gradient));
      for (std::size_t slot = 0; slot < before.size(); ++slot) {
        const auto to = args.input_gradients[slot].span<float>();
        for (std::size_t i = 0; i < to.size(); ++i) {
          const float there = request_.adds_to(slot) ? before[slot][i] : 0.0F;
          to[i] = there + args.output_gradient.span<float>()[i];
        }
      }
    }

   private:
    KernelRequest request_;
  };
};

TEST(StepPlan, ALayerThatReadsAValueTwiceNeedNotStoreBeforeItLoads) {
  const auto gradients = [](const LayerPtr& sum) {
    Graph graph("twice", {1, 6});
    const int first = graph.add("first", std::make_shared<Linear>(5, true), {Node::model_input});
    const int twice = graph.add("twice", sum, {first, first});
    graph.add("last", std::make_shared<Linear>(3, true), {twice});
    AnyContext context = cpu(1);
    ParameterStore store(graph, context, true);
    store.initialize(1);
    StepPlan plan(graph, store, context, {.batch = 4, .training = true});
    return gradients_of(plan, store, Batch(graph, 4, 1), false);
  };
  EXPECT_EQ(gradients(std::make_shared<LoadsFirst>()), gradients(std::make_shared<Add>()));
}

void expect_own_running_statistics(const Graph& graph) {
  AnyContext context = cpu(1);
  constexpr int ranks = 3;
  constexpr std::int64_t samples = 4;
  const Batch whole(graph, ranks * samples, 1);
  const auto run = [&](ParameterStore& store, const Batch& batch, std::int64_t groups) {
    store.initialize(1);
    const auto size = static_cast<std::int64_t>(batch.labels.size());
    StepPlan plan(graph, store, context, {.batch = size, .training = true, .batch_groups = groups});
    // The second one from what the first made of each.
    for (int pass = 0; pass < 2; ++pass) plan.forward(batch.images(), batch.targets(), size);
  };
  ParameterStore together(graph, context, true, {}, Precision::fp32, ranks);
  run(together, whole, ranks);
  std::vector<std::vector<float>> found;
  for (int rank = 0; rank < ranks; ++rank) {
    Batch own(graph, samples, 1);
    const auto size = static_cast<std::ptrdiff_t>(own.pixels.size());
    std::copy_n(whole.pixels.begin() + rank * size, size, own.pixels.begin());
    ParameterStore alone(graph, context, true);
    run(alone, own, 1);
    for (std::size_t i = 0; i < alone.buffers().size(); ++i) {
      const std::vector<float> wanted = copy_of(alone.buffer(i));
      const std::vector<float> got = copy_of(together.buffer(i, rank));
      for (std::size_t c = 0; c < wanted.size(); ++c) {
        EXPECT_NEAR(got[c], wanted[c], 1e-5 * (1.0 + std::fabs(wanted[c])))
            << alone.buffers()[i].name << "[" << c << "] of rank " << rank;
      }
    }
    found.push_back(copy_of(together.buffer(0, rank)));
  }
  EXPECT_NE(found[0], found[1]);
  EXPECT_EQ(copy_of(together.all_buffers()).size() * ranks,
            copy_of(together.buffers_of_ranks()).size());
  together.share_buffers();
  for (int rank = 1; rank < ranks; ++rank) {
    EXPECT_EQ(copy_of(together.buffer(0, rank)), found[0]);
  }
}

TEST(StepPlan, EachRanksRunningStatisticsFollowItsOwnSamples) {
  expect_own_running_statistics(smooth_model());
  expect_own_running_statistics(fuse(smooth_model()));
}

TEST(StepPlan, BuffersAreOfOneRankOrOfAll) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true, {}, Precision::fp32, 2);
  EXPECT_NE(message_of<Error>([&] {
              StepPlan(graph, store, context, {.batch = 8, .training = true, .batch_groups = 4});
            }).find("buffers of 2 ranks for the statistics of 4"),
            std::string::npos);
}

TEST(StepPlan, AccumulationNeedsAPlanMadeForIt) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  StepPlan plan(graph, store, context, {.batch = 2, .training = true});
  EXPECT_NE(message_of<Error>([&] { plan.backward(true, {}); }).find("without accumulation"),
            std::string::npos);
  StepPlan evaluation(graph, store, context, {.batch = 2});
  EXPECT_NE(message_of<Error>([&] { evaluation.backward(false, {}); }).find("for evaluation"),
            std::string::npos);
}

TEST(StepPlan, TrainingNeedsAFullBatch) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  StepPlan plan(graph, store, context, {.batch = 2, .training = true});
  const Batch batch(graph, 2, 1);
  EXPECT_THROW(plan.forward(batch.images(), batch.targets(), 1), Error);
}

TEST(StepPlan, PlansShareOneStore) {
  const Graph graph = fuse(zoo_model("resnet8"));
  AnyContext context = cpu(2);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  StepPlan training(graph, store, context, {.batch = 8, .training = true});
  StepPlan evaluation(graph, store, context, {.batch = 8});
  const Batch batch(graph, 8, 1);
  const auto values = copy_of(store.all_values());
  // Running statistics approach the batch's, so evaluation approaches training's loss on it.
  const double trained = training.forward(batch.images(), batch.targets(), 8).loss;
  const double before = evaluation.forward(batch.images(), batch.targets(), 8).loss;
  for (int step = 0; step < 80; ++step) training.forward(batch.images(), batch.targets(), 8);
  const auto buffers = copy_of(store.all_buffers());
  const double after = evaluation.forward(batch.images(), batch.targets(), 8).loss;
  EXPECT_LT(std::fabs(after - trained), 0.1 * std::fabs(before - trained));
  EXPECT_EQ(copy_of(store.all_values()), values);
  EXPECT_EQ(copy_of(store.all_buffers()), buffers) << "evaluation changed running statistics";
}

TEST(StepPlan, EvaluationCountsTheFirstSamplesAlone) {
  const Graph graph = fuse(zoo_model("resnet8"));
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, false);
  store.initialize(1);
  StepPlan plan(graph, store, context, {.batch = 4});
  Batch batch(graph, 4, 1);
  const LossSums some = plan.forward(batch.images(), batch.targets(), 3);
  EXPECT_EQ(some.samples, 3);
  std::fill(batch.pixels.end() - 28 * 28, batch.pixels.end(), 9.0F);
  batch.labels.back() = -1;
  EXPECT_EQ(plan.forward(batch.images(), batch.targets(), 3).loss, some.loss);
}

TEST(StepPlan, LogitsOutliveTheBackwardPass) {
  const Graph graph = fuse(zoo_model("resnet8"));
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  StepPlan plan(graph, store, context, {.batch = 4, .training = true});
  const Batch batch(graph, 4, 1);
  plan.forward(batch.images(), batch.targets(), 4);
  const auto logits = copy_of(plan.logits());
  EXPECT_EQ(plan.logits().shape(), (Shape{4, 10}));
  plan.backward(false, {});
  EXPECT_EQ(copy_of(plan.logits()), logits);
}

TEST(StepPlan, MemoryOfEvaluationIsFarBelowTrainings) {
  const Graph graph = fuse(zoo_model("resnet56"));
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  const StepPlan training(graph, store, context, {.batch = 4, .training = true});
  const StepPlan evaluation(graph, store, context, {.batch = 4});
  EXPECT_LT(10 * evaluation.activation_bytes(), training.activation_bytes());
}

/// A sum that says of backward that it reads these of its inputs.
class Keeps final : public Add {
 public:
  explicit Keeps(BackwardNeeds needs) : needs_(needs) {}
  BackwardNeeds backward_needs() const override { return needs_; }

 private:
  BackwardNeeds needs_;
};

TEST(StepPlan, KeepsTheInputsAloneThatBackwardReads) {
  AnyContext context = cpu(1);
  const auto bytes = [&](BackwardNeeds needs) {
    Graph graph("keeps", {1, 16, 16, 3});
    const auto conv = [&](const std::string& name) {
      return graph.add(
          name,
          std::make_shared<Conv2d>(Conv2dOptions{.out_channels = 32, .window = {.kernel = 1}}),
          {Node::model_input});
    };
    const int left = conv("left");
    const int right = conv("right");
    const int sum = graph.add("sum", std::make_shared<Keeps>(needs), {left, right});
    const int pool = graph.add("pool", std::make_shared<GlobalAveragePool>(), {sum});
    graph.add("fc", std::make_shared<Linear>(3, true), {pool});
    ParameterStore store(graph, context, true);
    return StepPlan(graph, store, context, {.batch = 4, .training = true}).activation_bytes();
  };
  const std::size_t one = std::size_t{4} * 16 * 16 * 32 * sizeof(float);
  const std::size_t none = bytes({});
  EXPECT_EQ(bytes({.inputs = true, .first_input_alone = true}), none + one);
  EXPECT_EQ(bytes({.inputs = true}), none + 2 * one);
}

TEST(StepPlan, RunsAreBitEqual) {
  const Graph graph = fuse(zoo_model("resnet8"));
  for (const int threads : {1, 2}) {
    std::vector<std::vector<float>> runs;
    for (int run = 0; run < 2; ++run) {
      AnyContext context = cpu(threads);
      ParameterStore store(graph, context, true);
      store.initialize(3);
      StepPlan plan(graph, store, context, {.batch = 16, .training = true});
      std::vector<float> seen;
      for (std::uint64_t step = 0; step < 3; ++step) {
        const Batch batch(graph, 16, step);
        const auto gradients = gradients_of(plan, store, batch, false);
        const auto values = store.all_values().span<float>();
        for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.1F * gradients[i];
      }
      seen = copy_of(store.all_values());
      const auto buffers = copy_of(store.all_buffers());
      seen.insert(seen.end(), buffers.begin(), buffers.end());
      runs.push_back(std::move(seen));
    }
    EXPECT_EQ(runs[0], runs[1]) << threads << " threads";
  }
}

TEST(StepPlan, AStepForgetsTheOneBefore) {
  const Graph graph = fuse(zoo_model("resnet8"));
  AnyContext context = cpu(2);
  ParameterStore store(graph, context, true);
  store.initialize(3);
  StepPlan plan(graph, store, context, {.batch = 4, .training = true});
  const Batch batch(graph, 4, 1);
  Batch nan_batch(graph, 4, 2);
  std::ranges::fill(nan_batch.pixels, NAN);
  const auto wanted = gradients_of(plan, store, batch, false);
  gradients_of(plan, store, nan_batch, false);
  EXPECT_EQ(gradients_of(plan, store, batch, false), wanted);
}

TEST(StepPlan, CallsBackAfterEachLayer) {
  const Graph graph = fuse(zoo_model("resnet8"));
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  std::size_t calls = 0;
  StepPlan plan(graph, store, context,
                {.batch = 2, .training = true, .after_layer = [&] { ++calls; }});
  EXPECT_EQ(std::exchange(calls, 0), graph.nodes().size());
  const Batch batch(graph, 2, 1);
  plan.forward(batch.images(), batch.targets(), 2);
  EXPECT_EQ(std::exchange(calls, 0), graph.nodes().size());
  plan.backward(false, {});
  EXPECT_EQ(std::exchange(calls, 0), graph.nodes().size());
}

/// What one layer reports follows what the layer before reported, normalisations' parameters among
/// themselves and all others among themselves, without a gap.
TEST(StepPlan, BackwardReportsParametersInTheOrderOfTheArena) {
  for (const char* name : {"resnet8", "resnet20"}) {
    for (const bool fused : {false, true}) {
      const Graph plain = zoo_model(name);
      const Graph graph = fused ? fuse(plain) : plain;
      AnyContext context = cpu(1);
      ParameterStore store(graph, context, true);
      store.initialize(3);
      StepPlan plan(graph, store, context, {.batch = 2, .training = true});
      const Batch batch(graph, 2, 1);
      const auto gradients = gradients_of(plan, store, batch, false);
      plan.forward(batch.images(), batch.targets(), 2);
      std::ranges::fill(store.all_gradients().span<float>(), NAN);
      std::size_t calls = 0;
      std::size_t next[] = {0, store.first_trained_norm()};  // of a normalisation or not
      std::int64_t end[] = {0, store.parameters()[next[1]].offset};
      plan.backward(false, [&](std::span<const std::size_t> parameters) {
        ++calls;
        for (const std::size_t index : parameters) {
          const Parameter& parameter = store.parameters()[index];
          const int kind = parameter.role == ParameterRole::norm ? 1 : 0;
          EXPECT_EQ(index, next[kind]++);
          EXPECT_EQ(parameter.offset % 16, 0);
          EXPECT_GE(parameter.offset, end[kind]);
          EXPECT_LT(parameter.offset, end[kind] + 16);
          end[kind] = parameter.offset + parameter.shape.elements();
          // Final already: what the whole pass leaves there.
          const auto now = copy_of(store.gradient(index));
          EXPECT_TRUE(std::equal(now.begin(), now.end(),
                                 gradients.begin() + static_cast<std::ptrdiff_t>(parameter.offset)))
              << parameter.name;
        }
      });
      EXPECT_EQ(calls, graph.nodes().size());
      EXPECT_EQ(next[0], store.first_trained_norm());
      EXPECT_EQ(next[1], store.parameters().size());
      EXPECT_LT(end[0], store.parameters()[next[0]].offset + 1) << "weights lie first";
    }
  }
}

}  // namespace
}  // namespace tandem
