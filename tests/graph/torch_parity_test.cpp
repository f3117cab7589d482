#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/hash.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/parity_context.h"
#include "graph/placed_batch.h"
#include "graph/small_models.h"
#include "optim/sgd.h"
#include "support/repeats.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

Json read_reference(const std::string& model) {
  std::ifstream file(std::filesystem::path(TANDEM_REFERENCES) / ("torch_" + model + ".json"));
  return Json::parse(file);
}

/// The numbers in [-1, 1) that tools/make_reference_tensors.py computes for a name.
double uniform(std::string_view name, std::int64_t index) {
  const std::uint64_t bits = mix64(hash_text(name) + static_cast<std::uint64_t>(index)) >> 40;
  return static_cast<double>(bits) / 0x1.0p23 - 1.0;
}

void set_parameter(const Parameter& parameter, double shift, const Tensor& value) {
  const std::int64_t fan_in = parameter.shape.elements() / parameter.shape[0];
  const auto values = value.span<float>();
  const bool norm = parameter.role == ParameterRole::norm;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = uniform(parameter.name, static_cast<std::int64_t>(i));
    if (parameter.shape.rank() >= 2) {
      values[i] = static_cast<float>(u * std::sqrt(6.0 / static_cast<double>(fan_in)));
    } else {
      const bool weight = parameter.name.ends_with(".weight");
      const bool last = parameter.name.find(".bn3.") != std::string::npos;
      values[i] = static_cast<float>(weight ? (last ? 0.3 : 1.0) + 0.2 * u
                                            : 0.2 * u + (norm ? shift : 0.0));
    }
  }
}

/// A typical element of what a summary is of.
double typical(const Json& summary) {
  return summary.at("norm").get<double>() / std::sqrt(summary.at("count").get<double>());
}

/// The dot product with the vector of 1 and -1 that the script computes for a name. An error
/// anywhere in the tensor changes it by about the error's norm.
double signed_sum(std::span<const float> values, const std::string& name, std::size_t dot) {
  const std::string vector = fmt::format("dot {} of {}", dot, name);
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += uniform(vector, static_cast<std::int64_t>(i)) < 0.0 ? -value : value;
  }
  return sum;
}

/// Samples, norm and dot products of a tensor. Errors of samples are relative to the sample or a
/// typical element, or to `floor` where that is larger than both; those of dot products to the
/// norm, or to that of as many elements of `floor`.
void expect_summary(const HostTensor& tensor, const Json& wanted, double tolerance, double floor,
                    const std::string& name) {
  const auto values = tensor.tensor().span<float>();
  ASSERT_EQ(values.size(), wanted.at("count").get<std::size_t>()) << name;
  double squares = 0.0;
  for (const float value : values) squares += std::pow(static_cast<double>(value), 2.0);
  const double root = std::sqrt(static_cast<double>(values.size()));
  const double scale = std::max(typical(wanted), floor);
  EXPECT_NEAR(std::sqrt(squares) / root, typical(wanted), tolerance * scale) << name;
  for (std::size_t i = 0; i < wanted.at("indices").size(); ++i) {
    const double sample = wanted.at("values")[i].get<double>();
    const auto got = static_cast<double>(values[wanted.at("indices")[i].get<std::size_t>()]);
    EXPECT_NEAR(got, sample, tolerance * std::max(std::fabs(sample), scale))
        << name << "[" << wanted.at("indices")[i] << "]";
  }
  ASSERT_EQ(wanted.at("dots").size(), 2U) << name;
  for (std::size_t dot = 0; dot < 2; ++dot) {
    EXPECT_NEAR(signed_sum(values, name, dot), wanted.at("dots")[dot].get<double>(),
                tolerance * scale * root)
        << name << ", dot product " << dot;
  }
}

void expect_logits(const HostTensor& host, const Json& wanted) {
  const Tensor& logits = host.tensor();
  const auto values = wanted.get<std::vector<double>>();
  ASSERT_EQ(logits.span<float>().size(), values.size());
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(logits.span<float>()[i]), values[i], 1e-4 * largest) << i;
  }
}

/// A model as the script made it, and the batch it was given.
class TorchParityTest : public testing::TestWithParam<std::string> {
 protected:
  TorchParityTest() {
    store_.initialize(1);
    for (std::size_t i = 0; i < store_.parameters().size(); ++i) {
      HostTensor value(context_, store_.value(i));
      set_parameter(store_.parameters()[i], reference_.at("norm_shift").get<double>(),
                    value.tensor());
      value.write_back();
    }
  }

  Batch made_batch() const {
    Batch batch(graph_, size_, 1);
    for (std::size_t i = 0; i < batch.pixels.size(); ++i) {
      batch.pixels[i] = static_cast<float>(1.5 * uniform("images", static_cast<std::int64_t>(i)));
    }
    return batch;
  }
  HostTensor on_host(const Tensor& tensor) { return {context_, tensor}; }

  double mean_loss(StepPlan& plan) {
    return plan.forward(batch_.images(), batch_.targets(), size_).loss / static_cast<double>(size_);
  }

  Json reference_ = read_reference(GetParam());
  std::int64_t size_ = reference_.at("batch").get<std::int64_t>();
  Graph graph_ = fuse(load_model(find_model(GetParam()), {.classes = reference_.at("classes"),
                                                          .channels = reference_.at("channels"),
                                                          .size = reference_.at("size"),
                                                          .dropout = 0.0,
                                                          .stochastic_depth = 0.0}));
  AnyContext context_ = parity_context();
  ParameterStore store_{graph_, context_, true};
  PlacedBatch batch_{context_, made_batch()};
  StepPlan plan_{graph_,
                 store_,
                 context_,
                 {.batch = size_,
                  .training = true,
                  .label_smoothing = reference_.at("label_smoothing").get<float>()}};
};

TEST_P(TorchParityTest, AStepIsPyTorchs) {
  const double loss = reference_.at("loss").get<double>();
  EXPECT_NEAR(mean_loss(plan_), loss, 1e-5 * loss);
  expect_logits(on_host(plan_.logits()), reference_.at("logits"));
  plan_.backward(false, {});
  const Json& gradients = reference_.at("gradients");
  const auto tolerance = reference_.at("gradient_tolerance").get<double>();
  // A shift whose effect the next normalisation takes away has a gradient of zero; what is left is
  // rounding, which counts against the gradients that there are.
  std::vector<double> sizes;
  for (const Json& each : gradients) sizes.push_back(typical(each));
  std::ranges::sort(sizes);
  const double floor = reference_.at("gradient_floor").get<double>() * sizes[sizes.size() / 2];
  ASSERT_EQ(store_.parameters().size(), gradients.size());
  for (std::size_t i = 0; i < store_.parameters().size(); ++i) {
    const std::string& name = store_.parameters()[i].name;
    expect_summary(on_host(store_.gradient(i)), gradients.at(name), tolerance, floor, name);
  }
  ASSERT_EQ(store_.buffers().size(), reference_.at("buffers").size());
  for (const StateBuffer& buffer : store_.buffers()) {
    expect_summary(on_host(store_.buffer(buffer.name)), reference_.at("buffers").at(buffer.name),
                   1e-4, 0.0, buffer.name);
  }
  StepPlan evaluation(graph_, store_, context_, {.batch = size_});
  mean_loss(evaluation);
  expect_logits(on_host(evaluation.logits()), reference_.at("evaluation_logits"));
}

class TorchTrajectoryTest : public TorchParityTest {};

TEST_P(TorchTrajectoryTest, TenStepsArePyTorchs) {
  const Json& sgd = reference_.at("sgd");
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store_.parameters()) {
    slices.push_back({.offset = parameter.offset,
                      .elements = parameter.shape.elements(),
                      .weight_decay = sgd.at("weight_decay").get<float>()});
  }
  Sgd optimizer(context_, store_.all_values().elements(), slices,
                {.momentum = sgd.at("momentum").get<float>()});
  const auto losses = reference_.at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 10U);
  for (std::size_t step = 0; step < static_cast<std::size_t>(repeats(10)); ++step) {
    EXPECT_NEAR(mean_loss(plan_), losses[step], 1e-3 * losses[step]) << "step " << step;
    plan_.backward(false, {});
    optimizer.step(store_.all_values(), store_.all_gradients(),
                   {.learning_rate = sgd.at("lr").get<float>()});
  }
}

const auto model_name = [](const testing::TestParamInfo<std::string>& test) { return test.param; };

INSTANTIATE_TEST_SUITE_P(Zoo, TorchParityTest,
                         testing::Values("resnet8", "resnet18", "resnet20", "resnet26", "resnet50",
                                         "shufflenet_v2_x1_0", "mobilenet_v2", "efficientnet_b0"),
                         model_name);
// One of each family.
INSTANTIATE_TEST_SUITE_P(Zoo, TorchTrajectoryTest,
                         testing::Values("resnet20", "shufflenet_v2_x1_0", "mobilenet_v2",
                                         "efficientnet_b0"),
                         model_name);

}  // namespace
}  // namespace tandem
