#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/philox.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "support/message.h"

// Frozen parameters: laid out behind the trained ones, without gradients, and without any effect on
// the gradients of the others.

namespace tandem {
namespace {

using Prefixes = std::vector<std::string>;

/// Below everything, in the middle (the gradient passes through), half of a fused layer, one of two
/// parameters of a layer, the head.
const std::vector<Prefixes>& freezes() {
  static const std::vector<Prefixes> all{
      {"stem", "stem_norm"}, {"main", "main_norm"}, {"stem_norm"}, {"main"}, {"fc.bias"}, {"fc"},
      {"stem", "short"},     {"third_conv.weight"}};
  return all;
}

struct Pass {
  std::map<std::string, std::vector<float>> gradients;
  std::map<std::string, int> finished;  ///< how often each was told to be final
};

Pass run(const Graph& graph, ParameterStore& store, AnyContext& context, bool accumulate,
         bool freeze_statistics) {
  scatter_parameters(context, store, 5);
  StepPlan plan(graph, store, context,
                {.batch = 4,
                 .training = true,
                 .accumulation = accumulate,
                 .freeze_statistics = freeze_statistics});
  Pass pass;
  for (int micro = 0; micro < (accumulate ? 2 : 1); ++micro) {
    const Batch batch(graph, 4, static_cast<std::uint64_t>(micro + 1));
    plan.forward(batch.images(), batch.targets(), 4);
    pass.finished.clear();
    plan.backward(micro > 0, [&](std::span<const std::size_t> indices) {
      for (const std::size_t index : indices) ++pass.finished[store.parameters()[index].name];
    });
  }
  for (std::size_t i = 0; i < store.trained().size(); ++i) {
    pass.gradients[store.parameters()[i].name] = copy_of(store.gradient(i));
  }
  return pass;
}

TEST(Freeze, LeavesTheOtherGradientsAsTheyAre) {
  AnyContext context = cpu(1);
  for (const Graph& graph : {smooth_model(), fuse(smooth_model())}) {
    for (const bool accumulate : {false, true}) {
      ParameterStore all(graph, context, true);
      const Pass expected = run(graph, all, context, accumulate, false);
      for (const Prefixes& prefixes : freezes()) {
        const NamePrefixes frozen(prefixes);
        ParameterStore store(graph, context, true, frozen);
        const Pass pass = run(graph, store, context, accumulate, false);
        EXPECT_LT(store.all_gradients().elements(), all.all_gradients().elements());
        EXPECT_LT(store.trained().size(), store.parameters().size());
        for (const auto& [name, gradient] : expected.gradients) {
          EXPECT_EQ(pass.gradients.contains(name), !frozen.match(name)) << name;
          EXPECT_EQ(pass.finished.contains(name), !frozen.match(name)) << name;
          if (frozen.match(name)) continue;
          EXPECT_EQ(pass.gradients.at(name), gradient) << prefixes[0] << ": " << name;
          EXPECT_EQ(pass.finished.at(name), 1) << name;
        }
      }
    }
  }
}

/// The loss of a fixed batch, normalisation as in training.
double loss_of(StepPlan& plan, const Batch& batch) {
  return plan.forward(batch.images(), batch.targets(), 4).loss / 4.0;
}

// Along a random direction of all trained parameters the loss rises as the gradient says.
TEST(Freeze, FixedStatisticsGiveTheGradientOfTheirOwnLoss) {
  AnyContext context = cpu(1);
  for (const Graph& graph : {smooth_model(), fuse(smooth_model())}) {
    for (const Prefixes& prefixes : freezes()) {
      ParameterStore store(graph, context, true, NamePrefixes(prefixes));
      scatter_parameters(context, store, 5);
      for (float& each : store.all_buffers().span<float>()) each += 0.3F;
      const std::vector<float> buffers = copy_of(store.all_buffers());
      StepPlan plan(graph, store, context, {.batch = 4, .training = true});
      const Batch batch(graph, 4, 1);
      loss_of(plan, batch);
      plan.backward(false, {});
      const std::span<float> values = store.trained_values().span<float>();
      const std::span<const float> gradient = store.all_gradients().span<float>();
      const std::vector<float> start(values.begin(), values.end());
      RandomStream random(9, "direction");
      std::vector<float> direction(values.size());
      double slope = 0.0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        direction[i] = random.normal();
        slope += static_cast<double>(direction[i]) * static_cast<double>(gradient[i]);
      }
      constexpr float step = 2e-3F;
      double ends[2];
      for (const int end : {0, 1}) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = start[i] + (end == 0 ? -step : step) * direction[i];
        }
        ends[end] = loss_of(plan, batch);
      }
      const double measured = (ends[1] - ends[0]) / (2.0 * static_cast<double>(step));
      EXPECT_NEAR(measured, slope, 2e-2 * std::abs(slope)) << graph.nodes().size() << prefixes[0];
      // Statistics of frozen normalisations stay; all others move.
      for (std::size_t i = 0; i < store.buffers().size(); ++i) {
        const StateBuffer& buffer = store.buffers()[i];
        const std::string norm = buffer.name.substr(0, buffer.name.find('.'));
        const bool fixed = std::ranges::find(prefixes, norm) != prefixes.end();
        const auto offset = static_cast<std::size_t>(buffer.offset);
        EXPECT_EQ(store.buffer(i).data<float>()[0] == buffers[offset], fixed) << buffer.name;
      }
    }
  }
}

TEST(Freeze, WithoutFixingStatisticsTheyFollowTheBatches) {
  AnyContext context = cpu(1);
  const Graph graph = fuse(smooth_model());
  ParameterStore store(graph, context, true, NamePrefixes({"stem", "stem_norm"}));
  run(graph, store, context, false, false);
  EXPECT_NE(store.buffer("stem_norm.running_mean").data<float>()[0], 0.0F);
}

// The arm's convolution and normalisation have no backward pass then, the join has.
TEST(Freeze, OfAJoinsSecondArmLeavesTheFirstOnesGradients) {
  const Graph plain = parse_model(R"(
channels = 2
size = 6
classes = 3
node = [
  {name = "left", op = "conv2d", out = 8, kernel = 3, padding = 1},
  {name = "right", op = "conv2d", out = 4, kernel = 1, from = "input"},
  {name = "norm", op = "batch_norm"},
  {name = "relu", op = "relu"},
  {name = "join", op = "shuffle_join", from = ["left", "relu"]},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                                  "arms.toml", {});
  const Graph fused = fuse(plain);
  ASSERT_EQ(fused.nodes().size() + 3, plain.nodes().size());
  AnyContext context = cpu(1);
  const auto gradients = [&](const Graph& graph) {
    ParameterStore store(graph, context, true, NamePrefixes({"right", "norm"}));
    return run(graph, store, context, false, true).gradients;
  };
  const auto wanted = gradients(plain);
  ASSERT_TRUE(std::ranges::any_of(wanted.at("left.weight"), [](float g) { return g != 0.0F; }));
  // But for rounding: the fused one's frozen convolution has the normalisation in its weights.
  const auto got = gradients(fused);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, values] : wanted) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(got.at(name)[i], values[i], 1e-5F) << name;
    }
  }
}

TEST(Freeze, OfAllBelowTheHeadNeedsLittleMemoryAndOneBackward) {
  AnyContext context = cpu(1);
  const Graph graph = fuse(zoo_model("resnet8"));
  ParameterStore all(graph, context, true);
  ParameterStore head(graph, context, true,
                      NamePrefixes({"conv1", "bn1", "layer1", "layer2", "layer3"}));
  EXPECT_EQ(head.trained().size(), 2U);
  const StepPlanOptions options{.batch = 8, .training = true};
  StepPlan whole(graph, all, context, options);
  StepPlan top(graph, head, context, options);
  EXPECT_LT(top.activation_bytes(), whole.activation_bytes() / 2);
  head.initialize(1);
  const Batch batch(graph, 8, 1);
  top.forward(batch.images(), batch.targets(), 8);
  int calls = 0;
  top.backward(false, [&](std::span<const std::size_t>) { ++calls; });
  EXPECT_EQ(calls, 1) << "the classifier's alone";
}

TEST(Freeze, OfEverythingIsRefused) {
  AnyContext context = cpu(1);
  const Graph graph = smooth_model();
  Prefixes names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  ParameterStore store(graph, context, true, NamePrefixes(names));
  EXPECT_TRUE(store.trained().empty());
  EXPECT_THROW(StepPlan(graph, store, context, {.batch = 2, .training = true}), Error);
}

TEST(NamePrefixes, MatchWholeWords) {
  const NamePrefixes prefixes({"layer1", "conv1.weight"});
  EXPECT_TRUE(prefixes.match("layer1.0.bn1.bias"));
  EXPECT_TRUE(prefixes.match("conv1.weight"));
  EXPECT_FALSE(prefixes.match("layer10.0.bn1.bias"));
  EXPECT_FALSE(prefixes.match("conv1.bias"));
  EXPECT_FALSE(NamePrefixes().match("conv1.weight"));
}

TEST(NamePrefixes, NameWhatIsNotThere) {
  const Graph graph = zoo_model("resnet8");
  NamePrefixes({"layer1.0", "bn1", "fc.weight"}).check_against(graph);
  EXPECT_EQ(message_of<InputError>([&] {
              NamePrefixes({"fc", "layr1"}, "run.toml:7: train.freeze").check_against(graph);
            }),
            "run.toml:7: train.freeze: 'layr1' is the beginning of no parameter's name in resnet8 "
            "(did you mean 'layer1'?); its parts are bn1, conv1, fc, layer1, layer2, layer3");
}

// A buffer is no part to freeze, though weights may be taken without it.
TEST(NamePrefixes, NameBuffersWhereTheseAreMeantToo) {
  const Graph graph = zoo_model("resnet8");
  const NamePrefixes mean({"bn1.running_mean"}, "run.toml:7: train.freeze");
  mean.check_against(graph);
  EXPECT_EQ(
      message_of<InputError>([&] {
        mean.check_against(graph, NamePrefixes::Names::parameters);
      }).substr(0, 88),
      "run.toml:7: train.freeze: 'bn1.running_mean' is the beginning of no parameter's name in ");
  NamePrefixes({"bn1"}).check_against(graph, NamePrefixes::Names::parameters);
}

}  // namespace
}  // namespace tandem
