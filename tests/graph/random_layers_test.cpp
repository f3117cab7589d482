#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/model_file.h"
#include "graph/small_models.h"
#include "support/message.h"

namespace tandem {
namespace {

/// Random layers of both kinds and no normalisation, which would mix the samples of a batch.
Graph random_model() {
  return parse_model(R"(
channels = 2
size = 6
classes = 5
dropout = 0.4
node = [
  {name = "stem", op = "conv2d", out = 8, kernel = 3, padding = 1},
  {name = "branch", op = "conv2d", out = 8, kernel = 3, padding = 1},
  {name = "drop", op = "stochastic_depth", rate = 0.5},
  {name = "sum", op = "add", from = ["drop", "stem"]},
  {name = "again", op = "dropout", rate = 0.3},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                     "random.toml", {});
}

constexpr std::int64_t whole = 8;

class RandomLayers : public testing::Test {
 protected:
  RandomLayers() { store_.initialize(3); }

  /// Logits and gradients of samples [first, first + count) of the batch.
  std::vector<float> run(std::int64_t first, std::int64_t count, const StepRandom& random,
                         int threads = 1, bool training = true) {
    AnyContext context = cpu(threads);
    StepPlan plan(graph_, store_, context, {.batch = count, .training = training});
    const std::int64_t elements = batch_.image_shape.elements() / whole;
    const Tensor images(batch_.pixels.data() + first * elements,
                        with_batch(batch_.image_shape, count));
    const Tensor labels(batch_.labels.data() + first, {count}, DType::i32);
    plan.forward(images, {labels}, count, random);
    std::vector<float> logits = copy_of(plan.logits());
    if (training) {
      plan.backward(false, {});
      gradients_ = copy_of(store_.all_gradients());
    }
    return logits;
  }

  Graph graph_ = random_model();
  AnyContext context_ = cpu(1);
  ParameterStore store_{graph_, context_, true};
  Batch batch_{graph_, whole, 2};
  std::vector<float> gradients_;
};

TEST_F(RandomLayers, DrawBySampleWhateverTheBatch) {
  const std::vector<float> all = run(0, whole, {.seed = 9, .first_sample = 400});
  const std::vector<float> summed = gradients_;
  std::vector<float> parts;
  std::vector<float> mean(summed.size(), 0.0F);
  for (std::int64_t first = 0; first < whole; first += 2) {
    const auto place = static_cast<std::uint64_t>(400 + first);
    const std::vector<float> part = run(first, 2, {.seed = 9, .first_sample = place});
    parts.insert(parts.end(), part.begin(), part.end());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradients_[i] / 4.0F;
  }
  ASSERT_EQ(parts.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(parts[i], all[i], 1e-5F);
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], summed[i], 1e-5F);
}

TEST_F(RandomLayers, DoNotDependOnThreads) {
  const StepRandom random{.seed = 9, .first_sample = 16};
  const std::vector<float> one = run(0, whole, random, 1);
  const std::vector<float> two = run(0, whole, random, 2);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(two[i], one[i], 1e-5F);
}

TEST_F(RandomLayers, DrawAnewWithSeedAndPlace) {
  const std::vector<float> first = run(0, whole, {.seed = 9, .first_sample = 0});
  EXPECT_EQ(run(0, whole, {.seed = 9, .first_sample = 0}), first);
  EXPECT_NE(run(0, whole, {.seed = 9, .first_sample = whole}), first);
  EXPECT_NE(run(0, whole, {.seed = 10, .first_sample = 0}), first);
}

TEST_F(RandomLayers, AreOffInEvaluation) {
  const std::vector<float> first = run(0, whole, {.seed = 9, .first_sample = 0}, 1, false);
  EXPECT_EQ(run(0, whole, {.seed = 10, .first_sample = 8}, 1, false), first);
}

double rate_of(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name != name) continue;
    // The rate shows in what is kept: 1 / (1 - rate).
    AnyContext context = cpu(1);
    const std::size_t index = static_cast<std::size_t>(&node - graph.nodes().data());
    const Shape shape = graph.output_shape(index, 64);
    const auto kernel = node.layer->prepare(
        context, {.inputs = {shape}, .output = shape, .training = true, .name = name});
    std::vector<float> ones(static_cast<std::size_t>(shape.elements()), 1.0F);
    std::vector<float> out(ones.size());
    std::vector<std::byte> saved(kernel->memory().saved);
    const std::vector<Tensor> inputs{Tensor(ones.data(), shape)};
    kernel->forward({.inputs = inputs,
                     .output = Tensor(out.data(), shape),
                     .parameters = {},
                     .buffers = {},
                     .saved = saved.data()});
    return 1.0 - 1.0 / static_cast<double>(*std::ranges::max_element(out));
  }
  return 0.0;
}

TEST(DropRates, OfTheZooAreTorchvisions) {
  const auto load = [](const char* name, const ModelOptions& options = {}) {
    return load_model(find_model(name), options);
  };
  EXPECT_NEAR(rate_of(load("mobilenet_v2"), "classifier.1.dropout"), 0.2, 1e-6);
  const Graph efficient = load("efficientnet_b0");
  EXPECT_NEAR(rate_of(efficient, "classifier.1.dropout"), 0.2, 1e-6);
  // 0.2 b / 16 for block b: the second of stage 2 is block 2, the last of stage 6 block 14.
  EXPECT_NEAR(rate_of(efficient, "features.2.1.stochastic_depth"), 0.2 * 2 / 16, 1e-6);
  EXPECT_NEAR(rate_of(efficient, "features.4.2.stochastic_depth"), 0.2 * 7 / 16, 1e-6);
  EXPECT_NEAR(rate_of(efficient, "features.6.3.stochastic_depth"), 0.2 * 14 / 16, 1e-6);
  const Graph off = load("efficientnet_b0", {.dropout = 0.0, .stochastic_depth = 0.0});
  for (const Node& node : off.nodes()) {
    EXPECT_NE(node.layer->kind(), "dropout");
    EXPECT_NE(node.layer->kind(), "stochastic_depth");
  }
  EXPECT_NEAR(rate_of(load("resnet18", {.dropout = 0.5}), "fc.dropout"), 0.5, 1e-6);
}

TEST(DropRates, StochasticDepthNeedsBlocksThatTakeIt) {
  const std::string message =
      message_of<InputError>([] { load_model(find_model("resnet18"), {.stochastic_depth = 0.1}); });
  EXPECT_EQ(message,
            "model.stochastic_depth: no block of resnet18 takes stochastic depth; leave it out "
            "(--set model.stochastic_depth=unset)");
  const std::string placed = message_of<InputError>([] {
    load_model(find_model("resnet18"),
               {.stochastic_depth = 0.1, .stochastic_depth_place = "run.toml:3: depth"});
  });
  EXPECT_EQ(placed,
            "run.toml:3: depth: no block of resnet18 takes stochastic depth; leave it out (--set "
            "model.stochastic_depth=unset)");
}

/// A layer of a rate of its own, and an end with or without what takes the model's.
Graph ending_in(const std::string& layer, const std::string& rates, const ModelOptions& options) {
  const std::string text = rates + R"(
channels = 2
size = 6
classes = 5
node = [
  {name = "conv", op = "conv2d", out = 8, kernel = 3, padding = 1},
  {name = "drop", op = "stochastic_depth", rate = 0.5},
  {name = "again", op = "dropout", rate = 0.3},
  {name = "pool", op = "global_average_pool"},
  )" + layer + "\n]\n";
  return parse_model(text, "own.toml", options);
}

TEST(DropRates, AreRefusedWhereNoNodeTakesTheModels) {
  const std::string linear = R"({name = "fc", op = "linear", out = 5},)";
  const std::string dropout =
      "no node of own.toml is a classifier, before which it would be; end the model with op = "
      "\"classifier\", or leave it out";
  const std::string depth = "no block of own.toml takes stochastic depth; leave it out";
  const auto refused = [&](const std::string& rates, const ModelOptions& options) {
    return message_of<InputError>([&] { ending_in(linear, rates, options); });
  };
  EXPECT_EQ(refused("", {.dropout = 0.1}),
            "model.dropout: " + dropout + " (--set model.dropout=unset)");
  EXPECT_EQ(refused("", {.dropout = 0.1, .dropout_place = "run.toml:3: rate"}),
            "run.toml:3: rate: " + dropout + " (--set model.dropout=unset)");
  EXPECT_EQ(refused("dropout = 0.1", {}), "own.toml:1: dropout: " + dropout);
  EXPECT_EQ(refused("", {.stochastic_depth = 0.1}),
            "model.stochastic_depth: " + depth + " (--set model.stochastic_depth=unset)");
  EXPECT_EQ(refused("stochastic_depth = 0.1", {}), "own.toml:1: stochastic_depth: " + depth);
  // What the run sets goes before what the file does.
  EXPECT_NO_THROW(ending_in(linear, "dropout = 0.1", {.dropout = 0.0}));
  EXPECT_NO_THROW(ending_in(linear, "", {}));
  EXPECT_NO_THROW(ending_in(R"({name = "fc", op = "classifier"},)", "dropout = 0.1", {}));
}

}  // namespace
}  // namespace tandem
