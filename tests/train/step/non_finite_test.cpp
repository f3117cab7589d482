#include "train/step/non_finite.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/data_config.h"
#include "graph/model_file.h"
#include "parallel/self_communicator.h"
#include "train/small_run.h"
#include "train/step/replica.h"

namespace tandem {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// A replica that has done one step, and a batch.
class NonFinite : public testing::Test {
 protected:
  NonFinite() {
    Batch batch = make_batch();
    EXPECT_TRUE(std::isfinite(step(batch).sums.loss));
  }

  Batch make_batch() {
    Batch batch;
    batch.images = Tensor(images_.data(), {16, 8, 8, 1});
    batch.labels = Tensor(labels_.data(), {16}, DType::i32);
    batch.valid = 16;
    return batch;
  }
  StepResult step(const Batch& batch) {
    return replica_.step([&]() -> const Batch& { return batch; }, 0.05F, false);
  }
  std::span<float> weight(const std::string& name) {
    return replica_.store().value(replica_.store().parameter_index(name)).span<float>();
  }
  std::span<float> gradient(const std::string& name) {
    return replica_.store().gradient(replica_.store().parameter_index(name)).span<float>();
  }
  /// What the next step, which must fail, is explained by.
  std::string explanation() {
    const std::span<float> all = replica_.store().all_values().span<float>();
    const std::vector<float> before(all.begin(), all.end());
    const Batch batch = make_batch();
    EXPECT_FALSE(std::isfinite(step(batch).sums.loss));
    // Nothing was learnt from it (compared by bits: NaN differs from itself).
    EXPECT_EQ(std::memcmp(before.data(), all.data(), all.size_bytes()), 0);
    return replica_.explain_non_finite_loss();
  }

  std::vector<float> images_ = [] {
    std::vector<float> values(16 * 8 * 8);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(0.7F * static_cast<float>(i));
    }
    return values;
  }();
  std::vector<std::int32_t> labels_ = std::vector<std::int32_t>(16, 2);
  RunConfig config_ = small_run();
  AnyContext context_{CpuContext(1)};
  SelfCommunicator self_;
  Replica replica_{config_,
                   load_model(find_model("resnet8"), {.classes = 4, .channels = 1, .size = 8}), 16,
                   context_, self_};
};

TEST_F(NonFinite, OutputOfALayer) {
  std::ranges::fill(weight("layer2.0.conv2.weight"), 3e38F);
  std::ranges::fill(weight("layer3.0.conv1.weight"), 3e38F);
  EXPECT_EQ(explanation(), "first so is the output of layer 'layer2.0.conv2'");
}

TEST_F(NonFinite, Images) {
  images_[77] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(explanation(), "first so are images of the batch");
}

TEST_F(NonFinite, WeightsByTheGradientThatBackwardReachesFirst) {
  // Backward goes from fc down to conv1.
  for (const char* name : {"conv1.weight", "layer2.0.bn1.bias", "layer1.0.conv1.weight"}) {
    gradient(name)[0] = nan;
    weight(name)[0] = nan;
  }
  EXPECT_EQ(explanation(),
            "first so was the gradient of 'layer2.0.bn1.bias', in backward of step 1");
}

TEST_F(NonFinite, WeightsWithoutTheGradientsOfTheirStep) {
  gradient("layer2.0.bn1.bias")[0] = nan;
  weight("conv1.weight")[0] = nan;
  EXPECT_EQ(non_finite_weights(replica_.store(), 7, replica_.store().all_gradients()),
            "first so was the gradient of 'layer2.0.bn1.bias', in backward of step 7");
  EXPECT_EQ(non_finite_weights(replica_.store(), 7, {}),
            "the update of step 7 made 'conv1.weight' so");
}

TEST_F(NonFinite, WeightsByTheUpdate) {
  weight("layer1.0.conv1.weight")[3] = nan;
  EXPECT_EQ(explanation(), "the update of step 1 made 'layer1.0.conv1.weight' so");
}

TEST_F(NonFinite, Statistics) {
  EXPECT_EQ(non_finite_weights(replica_.store(), 1, replica_.store().all_gradients()), "");
  EXPECT_EQ(non_finite_statistics(replica_.store()), "");
  replica_.store().buffer("layer1.0.bn2.running_var").span<float>()[0] = nan;
  EXPECT_EQ(non_finite_weights(replica_.store(), 1, replica_.store().all_gradients()), "");
  EXPECT_EQ(non_finite_statistics(replica_.store()), "first so is 'layer1.0.bn2.running_var'");
}

TEST_F(NonFinite, StatisticsOfAnotherRank) {
  const Graph graph = load_model(find_model("resnet8"), {});
  AnyContext context(std::in_place_type<CpuContext>, 1);
  ParameterStore store(graph, context, false, {}, Precision::fp32, 2);
  store.initialize(1);
  EXPECT_EQ(non_finite_statistics(store), "");
  store.buffer(3, 1).span<float>()[0] = nan;
  EXPECT_EQ(non_finite_statistics(store),
            fmt::format("first so is '{}' of rank 1 of this process", store.buffers()[3].name));
}

}  // namespace
}  // namespace tandem
