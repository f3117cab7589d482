#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"

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

void set_parameter(const Parameter& parameter, const Tensor& value) {
  const std::int64_t fan_in = parameter.shape.elements() / parameter.shape[0];
  const auto values = value.span<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = uniform(parameter.name, static_cast<std::int64_t>(i));
    if (parameter.shape.rank() >= 2) {
      values[i] = static_cast<float>(u * std::sqrt(6.0 / static_cast<double>(fan_in)));
    } else {
      const bool weight = parameter.name.ends_with(".weight");
      const bool last = parameter.name.find(".bn3.") != std::string::npos;
      values[i] = static_cast<float>(weight ? (last ? 0.3 : 1.0) + 0.2 * u : 0.2 * u);
    }
  }
}

/// Samples and norm of a tensor, errors relative to its largest sample and to its norm.
void expect_summary(const Tensor& tensor, const Json& wanted, double tolerance,
                    const std::string& name) {
  const auto values = tensor.span<float>();
  double squares = 0.0;
  for (const float value : values) squares += std::pow(static_cast<double>(value), 2.0);
  const double norm = wanted.at("norm").get<double>();
  EXPECT_NEAR(std::sqrt(squares), norm, tolerance * norm) << name;
  const double typical = norm / std::sqrt(static_cast<double>(values.size()));
  for (std::size_t i = 0; i < wanted.at("indices").size(); ++i) {
    const double sample = wanted.at("values")[i].get<double>();
    const auto got = static_cast<double>(values[wanted.at("indices")[i].get<std::size_t>()]);
    EXPECT_NEAR(got, sample, tolerance * std::max(std::fabs(sample), typical))
        << name << "[" << wanted.at("indices")[i] << "]";
  }
}

class TorchParityTest : public testing::TestWithParam<std::string> {};

TEST_P(TorchParityTest, AStepIsPyTorchs) {
  const Json reference = read_reference(GetParam());
  const auto size = reference.at("batch").get<std::int64_t>();
  const Graph graph = fuse(load_model(find_model(GetParam()), {.classes = reference.at("classes"),
                                                               .channels = reference.at("channels"),
                                                               .size = reference.at("size")}));
  AnyContext context = cpu(2);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    set_parameter(store.parameters()[i], store.value(i));
  }
  Batch batch(graph, size, 1);
  for (std::size_t i = 0; i < batch.pixels.size(); ++i) {
    batch.pixels[i] = static_cast<float>(1.5 * uniform("images", static_cast<std::int64_t>(i)));
  }
  StepPlan plan(graph, store, context,
                {.batch = size,
                 .training = true,
                 .label_smoothing = reference.at("label_smoothing").get<float>()});
  const LossSums sums = plan.forward(batch.images(), batch.targets(), size);
  const double loss = reference.at("loss").get<double>();
  EXPECT_NEAR(sums.loss / static_cast<double>(size), loss, 1e-5 * loss);
  const auto logits = reference.at("logits").get<std::vector<double>>();
  double largest = 0.0;
  for (const double logit : logits) largest = std::max(largest, std::fabs(logit));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(plan.logits().span<float>()[i]), logits[i], 1e-4 * largest);
  }
  plan.backward(false, {});
  const auto tolerance = reference.at("gradient_tolerance").get<double>();
  ASSERT_EQ(store.parameters().size(), reference.at("gradients").size());
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const std::string& name = store.parameters()[i].name;
    expect_summary(store.gradient(i), reference.at("gradients").at(name), tolerance, name);
  }
  ASSERT_EQ(store.buffers().size(), reference.at("buffers").size());
  for (const StateBuffer& buffer : store.buffers()) {
    expect_summary(store.buffer(buffer.name), reference.at("buffers").at(buffer.name), 1e-4,
                   buffer.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, TorchParityTest,
                         testing::Values("resnet8", "resnet18", "resnet20", "resnet50"),
                         [](const testing::TestParamInfo<std::string>& test) {
                           return test.param;
                         });

}  // namespace
}  // namespace tandem
