#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/parameters.h"
#include "graph/small_models.h"
#include "support/message.h"

namespace tandem {
namespace {

TEST(Zoo, ParameterCountsAreTorchvisions) {
  const std::map<std::string, std::int64_t> counts{
      {"resnet18", 11689512},
      {"resnet34", 21797672},
      {"resnet50", 25557032},
      {"resnet101", 44549160},
      {"resnet152", 60192808},
      // ResNet(Bottleneck, [2, 2, 2, 2])
      {"resnet26", 15995176},
      {"shufflenet_v2_x0_5", 1366792},
      {"shufflenet_v2_x1_0", 2278604},
      {"shufflenet_v2_x1_5", 3503624},
      {"shufflenet_v2_x2_0", 7393996},
      {"mobilenet_v2", 3504872},
      {"efficientnet_b0", 5288548},
  };
  for (const auto& [name, count] : counts) {
    EXPECT_EQ(zoo_model(name).parameter_elements(), count) << name;
    EXPECT_EQ(fuse(zoo_model(name)).parameter_elements(), count) << name;
  }
}

TEST(Zoo, MultiplyAddsAreTheUsualOnes) {
  EXPECT_EQ(zoo_model("resnet18").multiply_adds(), 1814073344);
  EXPECT_EQ(zoo_model("resnet50").multiply_adds(), 4089184256);
  // torchvision's "_ops", in units of 1e9 and three digits.
  const std::map<std::string, double> billions{
      {"shufflenet_v2_x0_5", 0.04},  {"shufflenet_v2_x1_0", 0.145}, {"shufflenet_v2_x1_5", 0.296},
      {"shufflenet_v2_x2_0", 0.583}, {"mobilenet_v2", 0.301},       {"efficientnet_b0", 0.386}};
  for (const auto& [name, count] : billions) {
    EXPECT_NEAR(1e-9 * static_cast<double>(zoo_model(name).multiply_adds()), count, 6e-4) << name;
  }
}

using NamedShapes = std::map<std::string, Shape>;

/// torchvision's names and shapes, convolutions KRSC, written down from its ResNet's definition.
class TorchvisionResNet {
 public:
  NamedShapes make(const std::vector<int>& counts, bool bottleneck) {
    conv("conv1", 64, 7, 3);
    norm("bn1", 64);
    std::int64_t inside = 64;
    for (std::size_t stage = 0; stage < counts.size(); ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      for (int block = 0; block < counts[stage]; ++block) {
        const std::string prefix =
            "layer" + std::to_string(stage + 1) + "." + std::to_string(block) + ".";
        const std::int64_t out = bottleneck ? 4 * width : width;
        add_block(prefix, inside, width, out, bottleneck);
        if (block == 0 && (stage > 0 || inside != out)) {
          conv(prefix + "downsample.0", out, 1, inside);
          norm(prefix + "downsample.1", out);
        }
        inside = out;
      }
    }
    shapes_.emplace("fc.weight", Shape{1000, inside});
    shapes_.emplace("fc.bias", Shape{1000});
    return shapes_;
  }

 private:
  void add_block(const std::string& prefix, std::int64_t inside, std::int64_t width,
                 std::int64_t out, bool bottleneck) {
    conv(prefix + "conv1", width, bottleneck ? 1 : 3, inside);
    norm(prefix + "bn1", width);
    conv(prefix + "conv2", width, 3, width);
    norm(prefix + "bn2", width);
    if (!bottleneck) return;
    conv(prefix + "conv3", out, 1, width);
    norm(prefix + "bn3", out);
  }
  void conv(const std::string& name, std::int64_t out, std::int64_t kernel, std::int64_t in) {
    shapes_.emplace(name + ".weight", Shape{out, kernel, kernel, in});
  }
  void norm(const std::string& name, std::int64_t channels) {
    for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
      shapes_.emplace(name + "." + part, Shape{channels});
    }
  }
  NamedShapes shapes_;
};

NamedShapes shapes_of(const Graph& graph) {
  AnyContext context = cpu(1);
  const ParameterStore store(graph, context, false);
  NamedShapes shapes;
  for (const Parameter& parameter : store.parameters()) {
    EXPECT_TRUE(shapes.emplace(parameter.name, parameter.shape).second) << parameter.name;
  }
  for (const StateBuffer& buffer : store.buffers()) {
    EXPECT_TRUE(shapes.emplace(buffer.name, buffer.shape).second) << buffer.name;
  }
  return shapes;
}

void expect_same(const NamedShapes& got, const NamedShapes& wanted) {
  for (const auto& [name, shape] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name << " is missing";
    EXPECT_EQ(got.at(name), shape) << name << ": " << got.at(name).text();
  }
  for (const auto& [name, shape] : got) EXPECT_TRUE(wanted.contains(name)) << name << " is extra";
}

TEST(Zoo, NamesAndShapesAreTorchvisions) {
  const NamedShapes resnet18 = TorchvisionResNet().make({2, 2, 2, 2}, false);
  const NamedShapes resnet50 = TorchvisionResNet().make({3, 4, 6, 3}, true);
  EXPECT_EQ(resnet18.size(), 62U + 40U);
  EXPECT_EQ(resnet50.size(), 161U + 106U);
  expect_same(shapes_of(zoo_model("resnet18")), resnet18);
  expect_same(shapes_of(fuse(zoo_model("resnet18"))), resnet18);
  expect_same(shapes_of(zoo_model("resnet50")), resnet50);
  expect_same(shapes_of(fuse(zoo_model("resnet50"))), resnet50);
}

TEST(Zoo, ListsItsModelsSorted) {
  const std::vector<std::string> names = zoo_models();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name :
       {"resnet8", "resnet18", "resnet20", "resnet32", "resnet34", "resnet50", "resnet56",
        "resnet101", "resnet152", "resnet26", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
        "shufflenet_v2_x1_5", "shufflenet_v2_x2_0", "mobilenet_v2", "efficientnet_b0"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  for (const std::string& name : names) EXPECT_EQ(zoo_model(name).name(), name);
}

TEST(Zoo, UnknownModelsAreErrorsThatNameTheNearest) {
  const std::string message = message_of<InputError>([] { find_model("resnet19"); });
  EXPECT_NE(message.find("no model is called 'resnet19' (did you mean 'resnet18'?)"),
            std::string::npos)
      << message;
  EXPECT_EQ(find_model("folder/own.toml"), "folder/own.toml");
  EXPECT_EQ(find_model("own.toml"), "own.toml");
}

TEST(Zoo, ModelsTakeOtherClassesChannelsAndSizes) {
  for (const char* name : {"resnet18", "resnet50", "resnet20"}) {
    const Graph own = zoo_model(name);
    for (const std::int64_t size : {32, 64, 225}) {
      const Graph graph =
          load_model(find_model(name), {.classes = 17, .channels = 1, .size = size});
      EXPECT_EQ(graph.input(), (Shape{1, size, size, 1}));
      EXPECT_EQ(graph.output(), (Shape{1, 17}));
      const NamedShapes shapes = shapes_of(graph);
      EXPECT_EQ(shapes.at("conv1.weight")[3], 1);
      EXPECT_EQ(shapes.at("fc.weight")[0], 17);
      EXPECT_EQ(shapes.size(), shapes_of(own).size());
    }
  }
}

TEST(Zoo, OddSizesRunThrough) {
  const Graph graph = fuse(load_model(find_model("resnet18"), {.classes = 3, .size = 33}));
  AnyContext context = cpu(1);
  ParameterStore store(graph, context, true);
  store.initialize(1);
  StepPlan plan(graph, store, context, {.batch = 2, .training = true});
  const Batch batch(graph, 2, 1);
  EXPECT_TRUE(std::isfinite(plan.forward(batch.images(), batch.targets(), 2).loss));
  plan.backward(false, {});
}

}  // namespace
}  // namespace tandem
