#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "graph/equal_groups.h"
#include "graph/late_queue.h"
#include "graph/small_models.h"
#include "graph/step_plan_choice.h"
#include "layers/activation.h"
#include "layers/add.h"
#include "layers/convolution/conv2d.h"
#include "layers/linear/linear.h"
#include "layers/pooling/pool2d.h"

namespace tandem {
namespace {

/// A convolution whose halves of backward are two kernels.
class SplitKernel final : public LayerKernel {
 public:
  SplitKernel(const Conv2d& conv, AnyContext& context, const KernelRequest& request)
      : split_(request.split_backward && request.wants_parameter(0)),
        gradient_bytes_(static_cast<std::size_t>(request.output.elements()) * sizeof(float)) {
    KernelRequest first = request;
    if (split_) first.parameter_gradients = {false};
    first_ = conv.prepare(context, first);
    if (!split_) return;
    KernelRequest second = request;
    second.input_gradients = {false};
    second_ = conv.prepare(context, second);
  }
  KernelMemory memory() const override {
    KernelMemory memory = first_->memory();
    if (!split_) return memory;
    memory.weights_scratch = second_->memory().backward_scratch;
    memory.handed_on = gradient_bytes_;
    return memory;
  }
  void forward(const ForwardArgs& args) override { first_->forward(args); }
  void backward(const BackwardArgs& args) override {
    first_->backward(args);
    if (split_) std::memcpy(args.handed_on, args.output_gradient.raw(), gradient_bytes_);
  }
  bool splits_backward() const override { return split_; }
  bool leaves_gradient(std::size_t /*parameter*/) const override { return split_; }
  void backward_weights(const BackwardArgs& args) override {
    EXPECT_FALSE(args.output.defined());
    EXPECT_TRUE(args.input_gradients.empty());
    EXPECT_EQ(std::memcmp(args.handed_on, args.output_gradient.raw(), gradient_bytes_), 0);
    second_->backward(args);
  }

 private:
  bool split_;
  std::size_t gradient_bytes_;
  std::unique_ptr<LayerKernel> first_;
  std::unique_ptr<LayerKernel> second_;
};

class SplitConv2d final : public Conv2d {
 public:
  using Conv2d::Conv2d;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override {
    return std::make_unique<SplitKernel>(Conv2d(options()), context, request);
  }
};

/// Five blocks of two convolutions around which their input goes; the first halves the image.
Graph split_model() {
  Graph graph("split", {1, 8, 8, 3});
  const auto conv = [&](const std::string& name, std::int64_t channels, std::int64_t stride,
                        int from) {
    return graph.add(
        name,
        std::make_shared<SplitConv2d>(Conv2dOptions{
            .out_channels = channels, .window = {.kernel = 3, .stride = stride, .padding = 1}}),
        {from});
  };
  int top = conv("stem", 4, 1, Node::model_input);
  for (int block = 0; block < 5; ++block) {
    const std::string name = "block" + std::to_string(block) + ".";
    if (block % 2 == 1) top = conv(name + "down", 4 + 2 * block, 2, top);
    const int first = conv(name + "first", 8, 1, top);
    const int relu =
        graph.add(name + "relu", std::make_shared<ActivationLayer>(Activation::relu), {first});
    const std::int64_t channels = graph.output_shape(static_cast<std::size_t>(top), 1)[3];
    const int second = conv(name + "second", channels, 1, relu);
    top = graph.add(name + "add", std::make_shared<Add>(), {second, top});
  }
  top = graph.add("pool", std::make_shared<GlobalAveragePool>(), {top});
  graph.add("fc", std::make_shared<Linear>(3, true), {top});
  return graph;
}

constexpr std::size_t convolutions = 1 + 2 + 5 * 2;

class SideWorkTest : public testing::Test {
 protected:
  /// Gradients of one batch, and of that with a second one added.
  std::vector<std::vector<float>> gradients_of(StepPlan& plan, ParameterStore& store) {
    std::vector<std::vector<float>> gradients;
    for (const bool accumulate : {false, true}) {
      const Batch batch(graph_, 6, accumulate ? 2 : 1);
      plan.forward(batch.images(), batch.targets(), 6);
      plan.backward(accumulate, {});
      gradients.push_back(copy_of(store.all_gradients()));
    }
    return gradients;
  }
  StepPlanOptions options(SideWork side_work, std::shared_ptr<SideQueue> queue = nullptr) const {
    return {.batch = 6,
            .training = true,
            .accumulation = true,
            .side_work = side_work,
            .side_queue = std::move(queue)};
  }

  const Graph graph_ = split_model();
  AnyContext context_ = cpu(1);
};

TEST_F(SideWorkTest, WhatItReadsIsKeptAsLongAsItMayTake) {
  for (const NamePrefixes& frozen :
       {NamePrefixes(), NamePrefixes({"stem", "block0", "block2.first", "fc"})}) {
    ParameterStore store(graph_, context_, true, frozen);
    store.initialize(1);
    StepPlan plain(graph_, store, context_, options(SideWork::never));
    const auto wanted = gradients_of(plain, store);
    const auto queue = std::make_shared<LateQueue>();
    StepPlan plan(graph_, store, context_, options(SideWork::always, queue));
    EXPECT_GT(plan.side_layers(), 5U);
    EXPECT_GE(plan.activation_bytes(), plain.activation_bytes());
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_EQ(gradients_of(plan, store), wanted) << "pass " << pass;
      EXPECT_TRUE(queue->done());
    }
  }
}

TEST_F(SideWorkTest, GradientsAreFinalWhenTheyAreTold) {
  ParameterStore store(graph_, context_, true);
  store.initialize(1);
  StepPlan plan(graph_, store, context_, options(SideWork::always, std::make_shared<LateQueue>()));
  const Batch batch(graph_, 6, 1);
  plan.forward(batch.images(), batch.targets(), 6);
  plan.backward(false, {});
  const auto wanted = copy_of(store.all_gradients());
  std::ranges::fill(store.all_gradients().span<float>(), 7.0F);
  plan.forward(batch.images(), batch.targets(), 6);
  std::size_t next = 0;
  plan.backward(false, [&](std::span<const std::size_t> parameters) {
    for (const std::size_t index : parameters) {
      EXPECT_EQ(index, next++) << "backward's order";
      const auto now = copy_of(store.gradient(index));
      const auto offset = static_cast<std::ptrdiff_t>(store.parameters()[index].offset);
      EXPECT_TRUE(std::equal(now.begin(), now.end(), wanted.begin() + offset))
          << store.parameters()[index].name;
    }
  });
  EXPECT_EQ(next, store.parameters().size());
}

TEST_F(SideWorkTest, WritesNoGradientOverWhatItReads) {
  std::size_t all_own_bytes = 0;
  std::size_t all_bytes = 0;
  for (std::int64_t size = 1; size <= 8; ++size) {
    SCOPED_TRACE(size);
    ParameterStore store(graph_, context_, true);
    store.initialize(1);
    const Batch batch(graph_, size, 1);
    const auto gradients = [&](bool lend, std::shared_ptr<SideQueue> queue) {
      StepPlanOptions options = this->options(SideWork::always, std::move(queue));
      options.batch = size;
      options.accumulation = false;
      options.gradient_memory = lend ? GradientMemory::lent : GradientMemory::stored;
      StepPlan plan(graph_, store, context_, options);
      plan.forward(batch.images(), batch.targets(), size);
      plan.backward(false, {});
      return std::pair(copy_of(store.all_gradients()), plan.activation_bytes());
    };
    const auto [wanted, own_bytes] = gradients(false, std::make_shared<LateQueue>());
    const auto [found, bytes] = gradients(true, std::make_shared<LateQueue>());
    EXPECT_EQ(found, wanted);
    EXPECT_LE(bytes, own_bytes);
    all_own_bytes += own_bytes;
    all_bytes += bytes;
    EXPECT_EQ(gradients(true, nullptr).first, wanted) << "without side work";
  }
  EXPECT_LT(all_bytes, all_own_bytes);
}

/// Does each piece at once: what it writes over must have been given up by then.
class EarlyQueue final : public SideQueue {
 public:
  void run(std::size_t /*piece*/, std::function<void()> work) override { work(); }
  void wait(std::size_t /*piece*/) override {}
  std::size_t cache_bytes() const override { return 0; }
};

/// Ten convolutions that compute nothing aside, below two that do.
Graph partly_split_model() {
  Graph graph("partly split", {1, 8, 8, 3});
  int top = Node::model_input;
  for (int layer = 0; layer < 12; ++layer) {
    const Conv2dOptions options{.out_channels = 6, .window = {.kernel = 3, .padding = 1}};
    LayerPtr conv = std::make_shared<Conv2d>(options);
    if (layer >= 10) conv = std::make_shared<SplitConv2d>(options);
    top = graph.add("conv" + std::to_string(layer), conv, {top});
  }
  top = graph.add("pool", std::make_shared<GlobalAveragePool>(), {top});
  graph.add("fc", std::make_shared<Linear>(3, true), {top});
  return graph;
}

class PassingGradientsWithSideWork : public SideWorkTest {
 protected:
  /// What backward gives group after group, laid out as the store's gradients.
  static std::vector<float> passed(StepPlan& plan, const ParameterStore& store,
                                   std::span<const ParameterRange> groups) {
    std::vector<float> gradients(static_cast<std::size_t>(store.trained_values().elements()), 0.0F);
    std::size_t group = 0;
    std::size_t told = 0;
    plan.backward(false, [&](std::span<const std::size_t> parameters) {
      told += parameters.size();  // in the arena's order, without normalisations
      for (; group < groups.size() && groups[group].last <= told; ++group) {
        const auto begin = store.trained()[groups[group].first].offset;
        for (std::size_t p = groups[group].first; p < groups[group].last; ++p) {
          const Parameter& parameter = store.trained()[p];
          const auto part = plan.passing_gradients(group).span<float>().subspan(
              static_cast<std::size_t>(parameter.offset - begin),
              static_cast<std::size_t>(parameter.shape.elements()));
          std::ranges::copy(part,
                            gradients.begin() + static_cast<std::ptrdiff_t>(parameter.offset));
        }
      }
    });
    EXPECT_EQ(group, groups.size());
    return gradients;
  }

  /// As stored ones, however late or early what goes aside is done.
  void expect_stored(const Graph& graph, const NamePrefixes& frozen, std::size_t least_aside) {
    ParameterStore store(graph, context_, true, frozen);
    store.initialize(1);
    const Batch batch(graph, 6, 1);
    StepPlanOptions options = this->options(SideWork::never);
    options.accumulation = false;
    StepPlan plain(graph, store, context_, options);
    plain.forward(batch.images(), batch.targets(), 6);
    plain.backward(false, {});
    const auto wanted = copy_of(store.all_gradients());
    options.side_work = SideWork::always;
    options.gradient_memory = GradientMemory::passing;
    for (const std::size_t size : {1U, 2U, 5U}) {
      options.gradient_groups = equal_groups(store, size);
      for (const bool late : {false, true}) {
        SCOPED_TRACE(std::to_string(size) + (late ? " late" : " early"));
        options.side_queue = std::make_shared<EarlyQueue>();
        if (late) options.side_queue = std::make_shared<LateQueue>();
        StepPlan plan(graph, store, context_, options);
        EXPECT_GE(plan.side_layers(), least_aside);
        std::ranges::fill(plan.memory(), std::byte{0xff});
        plan.forward(batch.images(), batch.targets(), 6);
        EXPECT_EQ(passed(plan, store, options.gradient_groups), wanted);
      }
    }
  }
};

TEST_F(PassingGradientsWithSideWork, AreUsedBeforeTheirMemoryIsGivenAway) {
  expect_stored(graph_, {}, 6);
}

TEST_F(PassingGradientsWithSideWork, AreUsedBesideFrozenLayers) {
  expect_stored(graph_, NamePrefixes({"stem", "block0", "block2.first", "fc"}), 6);
}

TEST_F(PassingGradientsWithSideWork, OfLayersThatLeaveNothingAsideToo) {
  expect_stored(partly_split_model(), {}, 2);
}

TEST_F(SideWorkTest, TakesLayersThatFitInTheCache) {
  ParameterStore store(graph_, context_, true);
  const auto layers = [&](SideWork side_work, std::size_t cache_bytes) {
    return StepPlan(graph_, store, context_,
                    options(side_work, std::make_shared<LateQueue>(cache_bytes)))
        .side_layers();
  };
  // The stem comes last in backward, when nothing is left to go on beside it.
  EXPECT_EQ(layers(SideWork::always, 0), convolutions - 1);
  EXPECT_EQ(layers(SideWork::by_size, 1 << 20U), convolutions - 1);
  EXPECT_EQ(layers(SideWork::by_size, 0), 0U);
  // Of 4 x 4 pixels and less: all but those of the first block and the layer that halves it.
  EXPECT_EQ(layers(SideWork::by_size, 6 * 4 * 4 * (10 + 8) * sizeof(float)), convolutions - 4);
  EXPECT_EQ(layers(SideWork::never, 1 << 20U), 0U);
  // Nothing is timed where a plan is made by itself.
  EXPECT_EQ(layers(SideWork::by_timing, 6 * 4 * 4 * (10 + 8) * sizeof(float)), convolutions - 4);
}

TEST_F(SideWorkTest, IsNotForCpus) {
  ParameterStore store(graph_, context_, true);
  EXPECT_EQ(StepPlan(graph_, store, context_, options(SideWork::always)).side_layers(), 0U);
  const auto chosen = make_step_plan(graph_, store, context_, options(SideWork::by_timing));
  EXPECT_EQ(chosen->side_layers(), 0U);
  EXPECT_EQ(chosen->batch(), 6);
}

}  // namespace
}  // namespace tandem
