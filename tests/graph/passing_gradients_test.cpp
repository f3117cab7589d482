#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "graph/equal_groups.h"
#include "graph/fusion.h"
#include "graph/late_queue.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "support/message.h"

// Gradients that lie in the plan's memory a group at a time, against plans that keep them all in
// the store.

namespace tandem {
namespace {

constexpr std::int64_t batch_size = 3;

/// What two steps leave behind, and what their plan takes.
struct Training {
  std::vector<double> losses;
  std::vector<float> values;
  std::vector<float> statistics;
  std::size_t bytes = 0;
};

void update(ParameterStore& store, std::int64_t begin, std::span<const float> gradients) {
  const std::span<float> values =
      store.trained_values().span<float>().subspan(static_cast<std::size_t>(begin));
  for (std::size_t i = 0; i < gradients.size(); ++i) values[i] -= 0.01F * gradients[i];
}

StepPlanOptions options_of(std::vector<ParameterRange> groups) {
  const bool passing = !groups.empty();
  return {.batch = batch_size,
          .training = true,
          .gradient_memory = passing ? GradientMemory::passing : GradientMemory::stored,
          .gradient_groups = std::move(groups)};
}

/// Weights are updated behind backward from the store, or in it group by group, each parameter's
/// part alone, for what lies between is anything.
class Trainer {
 public:
  /// `group`: parameters in a group; 0: gradients are stored.
  Trainer(const Graph& graph, std::size_t group, const NamePrefixes& frozen = {})
      : graph_(graph), context_(cpu(2)), store_(graph, context_, group == 0, frozen) {
    store_.initialize(1);
    if (group > 0) groups_ = equal_groups(store_, group);
    plan_.emplace(graph_, store_, context_, options_of(groups_));
    // Whoever reads what nobody wrote meets it.
    const std::span<std::byte> memory = plan_->memory();
    std::fill(memory.begin(), memory.end(), std::byte{0xff});
  }

  Training train() {
    Training training;
    training.bytes = plan_->activation_bytes();
    for (std::uint64_t step = 0; step < 2; ++step) {
      const Batch batch(graph_, batch_size, step);
      training.losses.push_back(
          plan_->forward(batch.images(), batch.targets(), batch_size, {.seed = step}).loss);
      backward();
    }
    training.values = copy_of(store_.all_values());
    training.statistics = copy_of(store_.all_buffers());
    return training;
  }

 private:
  void backward() {
    std::vector<bool> told(store_.trained().size(), false);
    std::size_t next = 0;
    plan_->backward(false, [&](std::span<const std::size_t> parameters) {
      for (const std::size_t parameter : parameters) told[parameter] = true;
      for (; next < groups_.size(); ++next) {
        const auto begin = told.begin() + static_cast<std::ptrdiff_t>(groups_[next].first);
        const auto end = told.begin() + static_cast<std::ptrdiff_t>(groups_[next].last);
        if (std::find(begin, end, false) != end) break;
        update_group(next);
      }
    });
    EXPECT_EQ(next, groups_.size());
    if (groups_.empty()) update(store_, 0, store_.all_gradients().span<float>());
  }
  void update_group(std::size_t group) {
    const std::span<const float> gradients = plan_->passing_gradients(group).span<float>();
    const std::int64_t begin = store_.trained()[groups_[group].first].offset;
    for (std::size_t p = groups_[group].first; p < groups_[group].last; ++p) {
      const Parameter& parameter = store_.trained()[p];
      update(store_, parameter.offset,
             gradients.subspan(static_cast<std::size_t>(parameter.offset - begin),
                               static_cast<std::size_t>(parameter.shape.elements())));
    }
  }

  const Graph& graph_;
  AnyContext context_;
  ParameterStore store_;
  std::vector<ParameterRange> groups_;
  std::optional<StepPlan> plan_;
};

void expect_same(const Graph& graph, std::size_t group, const NamePrefixes& frozen = {}) {
  SCOPED_TRACE(graph.name() + " in groups of " + std::to_string(group));
  const Training stored = Trainer(graph, 0, frozen).train();
  const Training passing = Trainer(graph, group, frozen).train();
  EXPECT_TRUE(std::ranges::all_of(stored.losses, [](double loss) { return std::isfinite(loss); }));
  EXPECT_EQ(passing.losses, stored.losses);
  EXPECT_TRUE(passing.values == stored.values);
  EXPECT_TRUE(passing.statistics == stored.statistics);
}

Graph small_images(const std::string& model) {
  return fuse(load_model(find_model(model), {.classes = 10, .size = 32}));
}

TEST(PassingGradients, LeaveTheBits) {
  for (const std::size_t group : {1U, 3U, 1000U}) {
    expect_same(smooth_model(), group);
    expect_same(small_images("resnet18"), group);
  }
  expect_same(small_images("shufflenet_v2_x1_0"), 7);
  expect_same(small_images("efficientnet_b0"), 10);
}

TEST(PassingGradients, LeaveTheBitsBesideFrozenLayers) {
  for (const NamePrefixes& frozen :
       {NamePrefixes({"conv1", "bn1", "layer1", "layer2"}), NamePrefixes({"layer3", "fc"})}) {
    expect_same(small_images("resnet18"), 4, frozen);
  }
}

TEST(PassingGradients, TakeTheMemoryOfFew) {
  const Graph graph = small_images("resnet18");
  const std::size_t all = Trainer(graph, 0).train().bytes;
  const std::size_t one = Trainer(graph, 1).train().bytes;
  const std::size_t whole = Trainer(graph, 1000).train().bytes;
  AnyContext context = cpu(1);
  const ParameterStore store(graph, context, false);
  const std::size_t gradients = store.trained_values().bytes();
  EXPECT_LT(one, all + gradients / 3) << "largest layer's: a fifth";
  EXPECT_GT(whole, all + gradients / 2);
}

TEST(PassingGradients, AreNotForAccumulationOrEvaluation) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, false);
  for (const bool training : {false, true}) {
    StepPlanOptions options = options_of(equal_groups(store, 2));
    options.training = training;
    options.accumulation = training;
    const std::string message =
        message_of<Error>([&] { StepPlan(graph, store, context, options); });
    EXPECT_NE(message.find("only training without accumulation"), std::string::npos) << message;
  }
}

TEST(PassingGradients, AreAllParametersInOrder) {
  const Graph graph = smooth_model();
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, false);
  const std::size_t all = store.trained().size();
  const std::vector<std::vector<ParameterRange>> wrong{
      {{0, 2}}, {{1, all}}, {{0, 2}, {3, all}}, {{0, 2}, {2, 2}, {2, all}}, {{0, all + 1}}};
  for (const std::vector<ParameterRange>& groups : wrong) {
    EXPECT_THROW(StepPlan(graph, store, context, options_of(groups)), Error);
  }
  EXPECT_NO_THROW(StepPlan(graph, store, context, options_of({{0, 2}, {2, all}})));
  StepPlanOptions stored = options_of({{0, all}});
  stored.gradient_memory = GradientMemory::stored;
  ParameterStore with_gradients(graph, context, true);
  EXPECT_THROW(StepPlan(graph, with_gradients, context, stored), Error);
}

}  // namespace
}  // namespace tandem
