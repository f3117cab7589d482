#include "graph/layer_cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/fusion.h"
#include "graph/model_file.h"

namespace tandem {
namespace {

/// 8x8x4 to 8x8x6, twice, the second with the first's result added: after fusion two conv_bn, a
/// pool and a linear layer. The first one's input wants no gradient.
Graph small_model() {
  return parse_model(R"(
channels = 4
size = 8
classes = 5
[[node]]
name = "a"
op = "conv2d"
out = 6
kernel = 3
padding = 1
[[node]]
name = "an"
op = "batch_norm"
[[node]]
name = "ar"
op = "relu"
[[node]]
name = "b"
op = "conv2d"
out = 6
kernel = 1
[[node]]
name = "bn"
op = "batch_norm"
[[node]]
name = "sum"
op = "add"
from = ["bn", "ar"]
[[node]]
name = "br"
op = "relu"
[[node]]
name = "pool"
op = "global_average_pool"
[[node]]
name = "fc"
op = "classifier"
)",
                     "small.toml", {});
}

constexpr double batch = 10;
constexpr double x = 8 * 8 * 4 * batch;  // elements
constexpr double y = 8 * 8 * 6 * batch;
constexpr double norm = 2 * 6;  // elements of the normalisation's parameters

TEST(LayerCostTest, FusedLayersMoveWhatTheirPassesReadAndWrite) {
  const Graph graph = fuse(small_model());
  ASSERT_EQ(graph.nodes().size(), 4U);
  const std::vector<LayerCost> costs = layer_costs(graph, 10, Precision::bf16);
  const double wa = 6 * 9 * 4;
  const double wb = 6 * 6;
  // Product: x, weights, c; normalisation: c, y.
  EXPECT_EQ(costs[0].forward_bytes, 2 * (x + wa + 3 * y) + 4 * norm);
  EXPECT_EQ(costs[0].forward_operations, 2 * y * 9 * 4);
  // Sums: dy, c, y; dc: dy, c, dc; weights: dc, x, dw. No dx.
  EXPECT_EQ(costs[0].backward_bytes, 2 * (7 * y + x) + 4 * (wa + norm));
  EXPECT_EQ(costs[0].backward_operations, 2 * y * 9 * 4);
  // The second reads the sum's other part, writes its gradient, and the first input's.
  EXPECT_EQ(costs[1].forward_bytes, 2 * (y + wb + 3 * y + y) + 4 * norm);
  EXPECT_EQ(costs[1].backward_bytes,
            2 * (7 * y + y /*input*/ + y /*its gradient*/ + y /*dc again*/ + y /*other's*/ + wb) +
                4 * (wb + norm) + 4 * norm);
  EXPECT_EQ(costs[1].backward_operations, 4 * y * 6);
}

/// Of conv_bn of `channels`, behind another convolution of as many, whose result it adds or not.
LayerCost cost_of_sum(int channels, const std::string& activation, bool adds, Precision precision,
                      bool deferred = false) {
  const Graph graph = fuse(parse_model(
      fmt::format("channels = 4\nsize = 8\nclasses = 5\nnode = [\n"
                  "{{name = 'a', op = 'conv2d', out = {0}, kernel = 1}}, "
                  "{{name = 'b', op = 'conv2d', out = {0}, kernel = 1}}, "
                  "{{name = 'bn', op = 'batch_norm'}}, {2}"
                  "{{name = 'r', op = '{1}'}}, {{name = 'pool', op = 'global_average_pool'}}, "
                  "{{name = 'fc', op = 'classifier'}}]",
                  channels, activation,
                  adds ? "{name = 's', op = 'add', from = ['bn', 'a']}, " : ""),
      "sum.toml", {}));
  EXPECT_EQ(graph.nodes()[1].layer->kind(), "conv_bn");
  std::vector<bool> left(graph.nodes().size(), false);
  left[1] = deferred;
  return layer_costs(graph, 10, precision, left)[1];
}

TEST(LayerCostTest, OfASumInPacksABitForAnElementIsSavedInPlaceOfTheResult) {
  for (const int channels : {6, 8}) {
    const double sum = 8.0 * 8 * channels * batch;  // elements
    const double weights = channels * channels;
    const double parameters = 4.0 * (weights + 2 * channels) + 4 * 2 * channels;
    const auto expect = [&](const LayerCost& cost, double element, double saved, double read) {
      // Product: x, weights, c; normalisation: c, the other part, y.
      EXPECT_EQ(cost.forward_bytes, element * (5 * sum + weights) + 4 * 2 * channels + saved);
      // Sums: dy, c, the result; dc: dy, c, dc; weights: dc, x, dw; input: dc, weights, dx;
      // other's.
      EXPECT_EQ(cost.backward_bytes, element * (10 * sum + weights) + parameters + read);
    };
    const double bits = channels == 8 ? sum / 8 : 0.0;
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      expect(cost_of_sum(channels, "relu", true, precision), 2, bits,
             channels == 8 ? bits : 2 * sum);
      // Not fused with the sum, which asks for nothing then.
      expect(cost_of_sum(channels, "sigmoid", true, precision), 2, 0, 0);
    }
    // Of 32 bits the result is read.
    expect(cost_of_sum(channels, "relu", true, Precision::fp32), 4, 0, 4 * sum);
    // Neither is there a part to read, nor its gradient to write.
    const LayerCost alone = cost_of_sum(channels, "relu", false, Precision::bf16);
    EXPECT_EQ(alone.forward_bytes, 2 * (4 * sum + weights) + 4 * 2 * channels);
    EXPECT_EQ(alone.backward_bytes, 2 * (10 * sum + weights) + parameters);
    // Unfinished, and backward does not ask for it.
    const LayerCost left = cost_of_sum(channels, "relu", true, Precision::bf16, true);
    EXPECT_EQ(left.backward_bytes, 2 * (10 * sum + weights) + parameters);
  }
}

TEST(LayerCostTest, AFusedJoinReadsAPartAndWritesBoth) {
  const Graph graph = fuse(parse_model(R"(
channels = 4
size = 8
classes = 5
node = [
  {name = "a", op = "conv2d", out = 12, kernel = 1, bias = true},
  {name = "b", op = "conv2d", out = 6, kernel = 1},
  {name = "bn", op = "batch_norm"},
  {name = "br", op = "relu"},
  {name = "join", op = "shuffle_join", from = ["a", "br"]},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
])",
                                       "join.toml", {}));
  ASSERT_EQ(graph.nodes()[1].name, "b");
  const LayerCost cost = layer_costs(graph, 10, Precision::bf16)[1];
  const double w = 12 * 6;
  // Product: x, weights, c; normalisation: c, half of a, y, which is twice as wide.
  EXPECT_EQ(cost.forward_bytes, 2 * (2 * y + w + y + y + y + 2 * y) + 4 * norm);
  // Sums: dy, c, da, dz; dc: dz, c, dc; weights: dc, x, dw; input: dc, weights, dx.
  EXPECT_EQ(cost.backward_bytes,
            2 * (5 * y + 3 * y + 3 * y + 3 * y + w) + 4 * (w + norm) + 4 * norm);
}

TEST(LayerCostTest, PlainLayersMoveTheirTensors) {
  const std::vector<LayerCost> costs = layer_costs(small_model(), 10, Precision::fp32);
  ASSERT_EQ(costs.size(), 9U);
  const LayerCost& normalise = costs[1];
  EXPECT_EQ(normalise.forward_bytes, 4 * (3 * y + norm));
  EXPECT_EQ(normalise.backward_bytes, 4 * (5 * y + norm));
  EXPECT_EQ(normalise.forward_operations, 0.0);
  const LayerCost& relu = costs[2];
  EXPECT_EQ(relu.forward_bytes, 4 * 2 * y);
  EXPECT_EQ(relu.backward_bytes, 4 * 3 * y);
  const LayerCost& pool = costs[7];
  EXPECT_EQ(pool.forward_bytes, 4 * (y + 6 * batch));
  EXPECT_EQ(pool.backward_bytes, 4 * (y + 6 * batch));
  const LayerCost& linear = costs[8];
  const double parameters = 6 * 5 + 5;
  EXPECT_EQ(linear.forward_bytes, 4 * (6 * batch + parameters + 5 * batch));
  EXPECT_EQ(linear.backward_bytes, 4 * (2 * 5 * batch + 2 * 6 * batch + 2 * parameters));
}

TEST(LayerCostTest, ANormalisationLeftToTheReaderTakesNoPass) {
  const Graph graph = fuse(parse_model(R"(
channels = 4
size = 8
classes = 5
node = [
  {name = "a", op = "conv2d", out = 6, kernel = 1},
  {name = "an", op = "batch_norm"},
  {name = "ar", op = "relu"},
  {name = "b", op = "conv2d", out = 6, kernel = 3, padding = 1, groups = 6},
  {name = "bn", op = "batch_norm"},
  {name = "pool", op = "global_average_pool"},
  {name = "fc", op = "classifier"},
]
)",
                                       "small.toml", {}));
  const std::vector<LayerCost> own = layer_costs(graph, 10, Precision::bf16);
  const std::vector<LayerCost> left =
      layer_costs(graph, 10, Precision::bf16, {true, false, false, false});
  // The product's x, weights and c.
  EXPECT_EQ(left[0].forward_bytes, 2 * (x + 6 * 4 + y) + 4 * norm);
  // Sums: dy, c; dc: dy, c, dc; weights: dc, x, dw.
  EXPECT_EQ(left[0].backward_bytes, 2 * (6 * y + x) + 4 * (6 * 4 + norm));
  EXPECT_EQ(left[0].forward_operations, own[0].forward_operations);
  EXPECT_EQ(left[1].forward_bytes, own[1].forward_bytes) << "which reads c instead of y";
  EXPECT_EQ(left[1].backward_bytes, own[1].backward_bytes);
}

TEST(LayerCostTest, ProductsOfTheZooAddUp) {
  const Graph graph = fuse(load_model(find_model("resnet50"), {}));
  double operations = 0.0;
  double bytes = 0.0;
  for (const LayerCost& cost : layer_costs(graph, 256, Precision::bf16)) {
    EXPECT_TRUE(cost.backward);
    operations += cost.forward_operations;
    bytes += cost.forward_bytes + cost.backward_bytes;
  }
  EXPECT_EQ(operations, 2.0 * 256 * static_cast<double>(graph.multiply_adds()));
  EXPECT_GT(bytes, 68e9);  // with normalisations fused into convolutions
  EXPECT_LT(bytes, 130e9);
}

}  // namespace
}  // namespace tandem
