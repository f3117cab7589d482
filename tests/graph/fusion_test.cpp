#include "graph/fusion.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/model_file.h"
#include "layers/convolution/conv_bn.h"

namespace tandem {
namespace {

/// The fused graph of these nodes with a classifier behind them.
Graph fused(const std::string& nodes) {
  return fuse(
      parse_model("channels = 3\nsize = 8\nclasses = 2\nnode = [\n" + nodes +
                      "\n{name='pool', op='global_average_pool'}, {name='fc', op='classifier'}]",
                  "fusion.toml", {}));
}

std::vector<std::string> kinds_after_fusion(const std::string& nodes) {
  std::vector<std::string> kinds;
  const Graph graph = fused(nodes);
  for (const Node& node : graph.nodes()) kinds.emplace_back(node.layer->kind());
  kinds.resize(kinds.size() - 2);
  return kinds;
}

using Kinds = std::vector<std::string>;

TEST(Fusion, TakesConvolutionNormalisationAndRelu) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, {name='r', op='relu'},"),
            Kinds{"conv_bn"});
}

TEST(Fusion, LeavesAConvolutionWithABias) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1, bias=true}, "
                               "{name='n', op='batch_norm'}, {name='r', op='relu'},"),
            (Kinds{"conv2d", "batch_norm", "relu"}));
}

TEST(Fusion, LeavesAConvolutionThatTwoLayersRead) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='a', op='add', from=['n', 'c']},"),
            (Kinds{"conv2d", "batch_norm", "add"}));
}

TEST(Fusion, LeavesTheReluOfANormalisationThatTwoLayersRead) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, {name='r', op='relu'}, "
                               "{name='a', op='add', from=['n', 'r']},"),
            (Kinds{"conv_bn", "relu", "add"}));
}

TEST(Fusion, LeavesTheSumOfANormalisationWithItself) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='a', op='add', from=['n', 'n']},"),
            (Kinds{"conv_bn", "add"}));
}

TEST(Fusion, LeavesTheReluOfASumThatTwoLayersRead) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='a', op='add', from=['input', 'n']}, "
                               "{name='r', op='relu'}, {name='b', op='add', from=['r', 'a']},"),
            (Kinds{"conv_bn", "relu", "add"}));
}

constexpr const char* arm =
    "{name='c', op='conv2d', out=3, kernel=1}, {name='n', op='batch_norm'}, "
    "{name='r', op='relu'}, ";

TEST(Fusion, TheSecondArmOfAJoinTakesIt) {
  const Graph graph =
      fused(std::string(arm) + "{name='j', op='shuffle_join', from=['input', 'r']},");
  const Node& node = graph.nodes()[0];
  ASSERT_EQ(node.layer->kind(), "conv_bn");
  EXPECT_TRUE(dynamic_cast<const ConvBn&>(*node.layer).options().join);
  EXPECT_EQ(node.name, "c");
  EXPECT_EQ(node.inputs, (std::vector<int>{Node::model_input, Node::model_input}));
  EXPECT_EQ(node.parameters, (std::vector<std::string>{"c.weight", "n.weight", "n.bias"}));
  EXPECT_EQ(graph.nodes()[1].layer->kind(), "global_average_pool");
}

TEST(Fusion, AJoinTakesTheNormalisationAlone) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='j', op='shuffle_join', from=['input', 'n']},"),
            Kinds{"conv_bn"});
}

TEST(Fusion, AJoinOfTwoConvolutionsTakesTheSecond) {
  const Graph graph = fused(std::string(arm) +
                            "{name='d', op='conv2d', out=3, kernel=1, from='input'}, "
                            "{name='m', op='batch_norm'}, "
                            "{name='j', op='shuffle_join', from=['r', 'm']},");
  ASSERT_EQ(graph.nodes()[0].name, "c");
  ASSERT_EQ(graph.nodes()[1].name, "d");
  EXPECT_FALSE(dynamic_cast<const ConvBn&>(*graph.nodes()[0].layer).options().join);
  EXPECT_TRUE(dynamic_cast<const ConvBn&>(*graph.nodes()[1].layer).options().join);
  EXPECT_EQ(graph.nodes()[1].inputs, (std::vector<int>{Node::model_input, 0}));
}

TEST(Fusion, LeavesAJoinThatIsNotItsSecondInputs) {
  const auto joined = [](const std::string& rest) { return kinds_after_fusion(arm + rest); };
  const Kinds apart{"conv_bn", "shuffle_join"};
  // Its first input, or both.
  EXPECT_EQ(joined("{name='j', op='shuffle_join', from=['r', 'input']},"), apart);
  EXPECT_EQ(joined("{name='j', op='shuffle_join', from=['r', 'r']},"), apart);
  // Somebody else reads the result.
  EXPECT_EQ(
      joined("{name='j', op='shuffle_join', from=['input', 'r']}, "
             "{name='s', op='channel_slice', count=3}, {name='a', op='add', from=['s', 'r']},"),
      (Kinds{"conv_bn", "shuffle_join", "channel_slice", "add"}));
  // Another number of channels than once or several times its own.
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=2, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='j', op='shuffle_join', from=['input', 'n']},"),
            apart);
  // Behind an activation without such kernels, or behind a sum.
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, {name='r', op='silu'}, "
                               "{name='j', op='shuffle_join', from=['input', 'r']},"),
            apart);
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='a', op='add', from=['n', 'input']}, "
                               "{name='j', op='shuffle_join', from=['input', 'a']},"),
            apart);
}

TEST(Fusion, OneArmOfASumTakesIt) {
  EXPECT_EQ(kinds_after_fusion("{name='c', op='conv2d', out=3, kernel=1}, "
                               "{name='n', op='batch_norm'}, "
                               "{name='d', op='conv2d', out=3, kernel=1, from='input'}, "
                               "{name='m', op='batch_norm'}, "
                               "{name='a', op='add', from=['n', 'm']}, {name='r', op='relu'},"),
            (Kinds{"conv_bn", "conv_bn"}));
}

}  // namespace
}  // namespace tandem
