#include "graph/lent_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "support/message.h"

// Activations in the memory of the gradients, against plans that leave that memory alone.

namespace tandem {
namespace {

constexpr std::int64_t batch_size = 3;

/// What a few steps leave behind, one after another, and what their plan takes.
struct Training {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<float> values;
  std::vector<float> statistics;
  std::size_t bytes = 0;
};

/// What the store's layout has beside trained parameters.
std::vector<float> gaps_of(const ParameterStore& store, std::vector<float> gradients) {
  for (const Parameter& parameter : store.trained()) {
    std::fill_n(gradients.begin() + static_cast<std::ptrdiff_t>(parameter.offset),
                parameter.shape.elements(), 0.0F);
  }
  return gradients;
}

Training train(const Graph& graph, bool lend, const NamePrefixes& frozen = {}) {
  AnyContext context = cpu(2);
  ParameterStore store(graph, context, true, frozen);
  store.initialize(1);
  StepPlan plan(graph, store, context,
                {.batch = batch_size,
                 .training = true,
                 .gradient_memory = lend ? GradientMemory::lent : GradientMemory::stored});
  // Backward must write every one.
  for (std::size_t p = 0; p < store.trained().size(); ++p) {
    std::ranges::fill(store.gradient(p).span<float>(), std::numeric_limits<float>::quiet_NaN());
  }
  Training training;
  training.bytes = plan.activation_bytes();
  for (std::uint64_t step = 0; step < 2; ++step) {
    const Batch batch(graph, batch_size, step);
    training.losses.push_back(
        plan.forward(batch.images(), batch.targets(), batch_size, {.seed = step}).loss);
    const auto logits = copy_of(plan.logits());
    plan.backward(false, {});
    EXPECT_EQ(copy_of(plan.logits()), logits);
    const auto gradients = store.all_gradients().span<float>();
    const auto values = store.trained_values().span<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.01F * gradients[i];
    training.gradients.push_back(copy_of(store.all_gradients()));
  }
  for (const auto& gradients : training.gradients) {
    EXPECT_TRUE(
        std::ranges::all_of(gaps_of(store, gradients), [](float value) { return value == 0.0F; }));
  }
  training.values = copy_of(store.all_values());
  training.statistics = copy_of(store.all_buffers());
  return training;
}

/// Both ways give the same bits; returns how many bytes lending saves.
std::size_t expect_same(const Graph& graph, const NamePrefixes& frozen = {}) {
  SCOPED_TRACE(graph.name());
  const Training own = train(graph, false, frozen);
  const Training lent = train(graph, true, frozen);
  EXPECT_TRUE(std::ranges::all_of(own.losses, [](double loss) { return std::isfinite(loss); }));
  EXPECT_TRUE(std::ranges::all_of(own.gradients.back(),
                                  [](float gradient) { return std::isfinite(gradient); }));
  EXPECT_EQ(lent.losses, own.losses);
  for (std::size_t step = 0; step < own.gradients.size(); ++step) {
    EXPECT_TRUE(lent.gradients[step] == own.gradients[step]) << "step " << step;
  }
  EXPECT_TRUE(lent.values == own.values);
  EXPECT_TRUE(lent.statistics == own.statistics);
  EXPECT_LE(lent.bytes, own.bytes);
  return own.bytes - lent.bytes;
}

Graph small_images(const std::string& model) {
  return load_model(find_model(model), {.classes = 10, .size = 32});
}

class LentGradientsOfTheZoo : public testing::TestWithParam<std::string> {};

TEST_P(LentGradientsOfTheZoo, LeaveTheBits) {
  // Of so few and so small images next to nothing is larger than the gradients of a layer or two.
  EXPECT_GT(expect_same(fuse(small_images(GetParam()))), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, LentGradientsOfTheZoo, testing::ValuesIn(zoo_models()),
                         [](const testing::TestParamInfo<std::string>& test) {
                           return test.param;
                         });

TEST(LentGradients, LeaveTheBitsOfPlainModels) {
  expect_same(smooth_model());
  EXPECT_GT(expect_same(small_images("resnet18")), 0U);
  EXPECT_GT(expect_same(small_images("shufflenet_v2_x1_0")), 0U);
}

TEST(LentGradients, LeaveTheBitsBesideFrozenLayers) {
  for (const NamePrefixes& frozen :
       {NamePrefixes({"conv1", "bn1", "layer1", "layer2"}), NamePrefixes({"layer3", "fc"})}) {
    EXPECT_GT(expect_same(fuse(small_images("resnet18")), frozen), 0U);
  }
}

TEST(LentGradients, SaveMuchOfWhatManyParametersLeaveRoomFor) {
  const Graph graph = fuse(small_images("resnet18"));
  AnyContext context = cpu(1);
  // A store's layout tells it.
  ParameterStore store(graph, context, false);
  const auto bytes = [&](bool lend) {
    return StepPlan::least_activation_bytes(
        graph, store, context,
        {.batch = 8,
         .training = true,
         .gradient_memory = lend ? GradientMemory::lent : GradientMemory::stored});
  };
  EXPECT_LT(bytes(true), bytes(false) / 10 * 8);
}

TEST(LentGradients, AreKeptFromBackwardOnAndGapsForGood) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, false, NamePrefixes({"stem"}));
  const std::span<const Parameter> trained = store.trained();
  std::vector<int> written;
  for (std::size_t p = 0; p < trained.size(); ++p) written.push_back(100 + static_cast<int>(p));
  const LentMemory lent = lent_gradients(store, written, 200);
  EXPECT_EQ(lent.bytes, store.trained_values().bytes());
  std::size_t end = 0;
  std::size_t next = 0;
  std::size_t gaps = 0;
  for (const PlacedBuffer& kept : lent.kept) {
    EXPECT_EQ(kept.offset, end) << "pieces lie without holes";
    EXPECT_EQ(kept.buffer.last, 200);
    end += kept.buffer.bytes;
    if (next < trained.size() &&
        kept.offset == static_cast<std::size_t>(trained[next].offset) * sizeof(float)) {
      EXPECT_EQ(kept.buffer.bytes,
                static_cast<std::size_t>(trained[next].shape.elements()) * sizeof(float));
      EXPECT_EQ(kept.buffer.first, written[next++]);
    } else {
      EXPECT_EQ(kept.buffer.first, 0);
      ++gaps;
    }
  }
  EXPECT_EQ(end, lent.bytes);
  EXPECT_EQ(next, trained.size());
  EXPECT_GT(gaps, 5U);
}

TEST(LentGradients, AreNotForAccumulationOrEvaluation) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  for (const bool training : {false, true}) {
    const std::string message = message_of<Error>([&] {
      StepPlan(graph, store, context,
               {.batch = 2,
                .training = training,
                .accumulation = training,
                .gradient_memory = GradientMemory::lent});
    });
    EXPECT_NE(message.find("only training without accumulation"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tandem
