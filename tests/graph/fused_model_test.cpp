#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/parity_context.h"
#include "graph/placed_batch.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

int count_kind(const Graph& graph, std::string_view kind) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes(), [&](const Node& node) { return node.layer->kind() == kind; }));
}

using Values = std::map<std::string, std::vector<float>>;

/// What one training step and one evaluation leave behind, by name.
struct StepValues {
  double loss = 0.0;
  std::vector<float> logits;
  std::vector<float> evaluated;
  Values gradients;
  Values buffers;
};

StepValues run(const Graph& graph, const Batch& batch) {
  AnyContext context = parity_context();
  ParameterStore store(graph, context, true);
  scatter_parameters(context, store, 11);
  const auto size = static_cast<std::int64_t>(batch.labels.size());
  const PlacedBatch placed(context, batch);
  const auto values_of = [&](const Tensor& tensor) {
    return copy_of(HostTensor(context, tensor).tensor());
  };
  StepPlan training(graph, store, context, {.batch = size, .training = true});
  StepPlan evaluation(graph, store, context, {.batch = size});
  StepValues values;
  values.loss = training.forward(placed.images(), placed.targets(), size).loss;
  values.logits = values_of(training.logits());
  training.backward(false, {});
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    values.gradients[store.parameters()[i].name] = values_of(store.gradient(i));
  }
  for (const StateBuffer& buffer : store.buffers()) {
    values.buffers[buffer.name] = values_of(store.buffer(buffer.name));
  }
  evaluation.forward(placed.images(), placed.targets(), size);
  values.evaluated = values_of(evaluation.logits());
  return values;
}

/// How far each value may be from the other's, as a part of the largest: forward, where two ways to
/// compute differ by rounding alone.
constexpr double value_tolerance = 2e-4;

/// The same of gradients, and how long all of a parameter's differences together may be, as a part
/// of its gradient. Where kernels differ, rounding moves values over the border of a ReLU, or from
/// one of a maximum's inputs to another, and that changes what goes back: two instruction sets of
/// one CPU differ by up to 7e-2 and 2e-2 with 16 samples.
struct GradientTolerance {
  double value;
  double length;
};
GradientTolerance gradient_tolerance() {
  return same_kernels_fused() ? GradientTolerance{.value = 2e-3, .length = 1e-3}
                              : GradientTolerance{.value = 0.2, .length = 5e-2};
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b,
                 const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  double largest = 1e-3;
  for (const float value : a) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], value_tolerance * largest) << name << "[" << i << "]";
  }
}

void expect_near(const Values& a, const Values& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    expect_near(values, b.at(name), name);
  }
}

void expect_near_gradient(const std::vector<float>& a, const std::vector<float>& b,
                          const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  double largest = 0.0;
  double length = 0.0;
  double largest_difference = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
    length = std::hypot(length, a[i]);
    largest_difference = std::max(largest_difference, apart);
    difference = std::hypot(difference, apart);
  }
  // The gradient of a shift that the next normalisation takes out is zero but for rounding, of a
  // sum of thousands of terms of 0.01 and less.
  const double least = name.ends_with(".bias") ? 5e-5 : 2e-6;
  const GradientTolerance tolerance = gradient_tolerance();
  EXPECT_LE(largest_difference, std::max(tolerance.value * largest, least)) << name;
  EXPECT_LE(difference,
            std::max(tolerance.length * length, least * std::sqrt(static_cast<double>(a.size()))))
      << name;
}

void expect_near_gradients(const Values& a, const Values& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    expect_near_gradient(values, b.at(name), name);
  }
}

class FusedModelTest : public testing::TestWithParam<std::string> {};

TEST_P(FusedModelTest, ComputesWhatThePlainModelComputes) {
  const Graph plain = load_model(
      find_model(GetParam()), {.classes = 10, .size = 32, .dropout = 0.0, .stochastic_depth = 0.0});
  const Graph fused = fuse(plain);
  EXPECT_EQ(count_kind(fused, "batch_norm"), 0);
  EXPECT_EQ(count_kind(fused, "add"), 0);
  EXPECT_EQ(count_kind(fused, "shuffle_join"), 0);
  EXPECT_EQ(count_kind(fused, "relu"), 0);
  EXPECT_EQ(count_kind(fused, "relu6"), 0);
  EXPECT_EQ(count_kind(fused, "conv_bn"), count_kind(plain, "batch_norm"));
  EXPECT_EQ(fused.parameter_elements(), plain.parameter_elements());
  EXPECT_EQ(fused.multiply_adds(), plain.multiply_adds());
  // The last normalisations are over one value of each sample: of four alone they would make so
  // much of rounding that logits differed by up to 8e-4 (of the largest) by a CPU's instructions.
  const Batch batch(plain, 16, 5);
  const StepValues a = run(plain, batch);
  const StepValues b = run(fused, batch);
  EXPECT_NEAR(a.loss, b.loss, 1e-4 * a.loss);
  expect_near(a.logits, b.logits, "logits");
  expect_near(a.evaluated, b.evaluated, "logits in evaluation");
  expect_near_gradients(a.gradients, b.gradients);
  expect_near(a.buffers, b.buffers);
}

INSTANTIATE_TEST_SUITE_P(Zoo, FusedModelTest,
                         testing::Values("resnet8", "resnet20", "shufflenet_v2_x0_5",
                                         "shufflenet_v2_x1_0", "mobilenet_v2", "efficientnet_b0"),
                         [](const testing::TestParamInfo<std::string>& test) {
                           return test.param;
                         });

}  // namespace
}  // namespace tandem
