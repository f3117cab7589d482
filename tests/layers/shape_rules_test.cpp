#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layers/layer_cases.h"
#include "layers/window.h"
#include "support/message.h"

namespace tandem {
namespace {

struct Refusal {
  std::string kind;
  std::string keys;
  std::vector<Shape> inputs;
  std::string message;  ///< a part of it
};

TEST(ShapeRules, ImpossibleSizesAreErrorsThatTellThem) {
  const std::string window =
      "a 5x5 window (stride 1, padding 0, dilation 1) does not fit an input of 4x6 pixels";
  const std::vector<Refusal> refusals{
      {"add", "", {{2, 3}, {2, 4}}, "cannot add 2x3 and 2x4"},
      {"average_pool", "kernel=5", {{1, 4, 6, 3}}, "a 5x5 window (stride 5"},
      {"average_pool", "kernel=5", {{1, 8}}, "needs an image input (N x H x W x C), not 1x8"},
      {"max_pool", "kernel=5\nstride=1", {{1, 4, 6, 3}}, window},
      {"max_pool", "kernel=2", {{1, 8}}, "needs an image input (N x H x W x C), not 1x8"},
      {"global_average_pool", "", {{1, 8}}, "needs an image input (N x H x W x C), not 1x8"},
      {"batch_norm", "", {{8}}, "needs an input of at least two extents, not 8"},
      {"conv2d", "out=4\nkernel=5", {{1, 4, 6, 3}}, window},
      {"conv2d", "out=4\nkernel=3\ndilation=3", {{1, 6, 9, 3}}, "does not fit an input of 6x9"},
      {"conv2d",
       "out=4\nkernel=1\ngroups=2",
       {{1, 4, 6, 3}},
       "3 input and 4 output channels do not divide into 2 groups"},
      {"conv2d",
       "out=3\nkernel=1\ngroups=2",
       {{1, 4, 6, 4}},
       "4 input and 3 output channels do not divide into 2 groups"},
      {"conv2d", "out=3\nkernel=1", {{4, 6}}, "needs an image input"},
      {"conv_bn", "out=4\nkernel=5", {{1, 4, 6, 3}}, window},
      {"conv_bn",
       "out=4\nkernel=1\nadd=true",
       {{1, 4, 6, 3}, {1, 4, 6, 3}},
       "cannot add 1x4x6x3 to the convolution's 1x4x6x4"},
      {"conv_bn",
       "out=4\nkernel=1\njoin=true",
       {{1, 4, 6, 3}, {1, 4, 6, 6}},
       "cannot join 1x4x6x6 and the convolution's 1x4x6x4"},
      {"conv_bn",
       "out=4\nkernel=1\njoin=true",
       {{1, 4, 6, 3}, {1, 3, 6, 4}},
       "cannot join 1x3x6x4 and the convolution's 1x4x6x4"},
      {"linear",
       "out=4",
       {{1, 4, 6, 3}},
       "needs an input of N x C, not 1x4x6x3; put a pooling before it"},
  };
  for (const Refusal& refusal : refusals) {
    const LayerPtr layer =
        make_layer({.kind = refusal.kind, .name = "shape", .keys = refusal.keys, .inputs = {}});
    const std::string message =
        message_of<InputError>([&] { layer->output_shape(refusal.inputs); });
    EXPECT_NE(message.find(refusal.message), std::string::npos)
        << refusal.kind << ": " << message << "\nwanted: " << refusal.message;
  }
}

TEST(ShapeRules, AWindowMayStandOnPaddingAlone) {
  const auto stands = [](const Window& window, const Shape& input) {
    return stands_on_padding(window, input, windowed_shape(window, input, 1));
  };
  EXPECT_FALSE(stands({.kernel = 3, .padding = 1}, {1, 1, 1, 1}));
  EXPECT_FALSE(stands({.kernel = 7, .stride = 2, .padding = 3}, {1, 32, 32, 1}));
  EXPECT_TRUE(stands({.kernel = 1, .padding = 1}, {1, 4, 4, 1}));
  // Its rows stand on both sides of the only one there is.
  EXPECT_TRUE(stands({.kernel = 2, .padding = 1, .dilation = 2}, {1, 1, 8, 1}));
  EXPECT_TRUE(stands({.kernel = 2, .padding = 1, .dilation = 2}, {1, 8, 1, 1}));
}

TEST(ShapeRules, BadKeysAreErrorsThatNameThem) {
  const std::vector<Refusal> refusals{
      {"conv2d", "out=4", {}, "kernel"},
      {"conv2d", "out=0\nkernel=3", {}, "out"},
      {"conv2d", "out=4\nkernel=3\nstrid=2", {}, "stride"},
      {"conv_bn", "out=4\nkernel=3\nbias=true", {}, "bias: conv_bn has no bias"},
      {"conv_bn", "out=4\nkernel=3\nadd=true\njoin=true", {}, "join: conv_bn joins no sum"},
      {"conv_bn",
       "out=4\nkernel=3\nactivation=\"silu\"\njoin=true",
       {},
       "activation: conv_bn joins nothing behind silu"},
      {"batch_norm", "momentum=2", {}, "momentum"},
      {"max_pool", "kernel=3\npadding=2", {}, "padding"},
      {"linear", "out=\"ten\"", {}, "out"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = message_of<InputError>([&] {
      make_layer({.kind = refusal.kind, .name = "keys", .keys = refusal.keys, .inputs = {}});
    });
    EXPECT_NE(message.find(refusal.message), std::string::npos) << refusal.kind << ": " << message;
    EXPECT_NE(message.find(refusal.kind + ".keys:"), std::string::npos) << message;
  }
}

TEST(ShapeRules, MultiplyAddsCountTheWindowsOfEachGroup) {
  const auto work = [](const std::string& kind, const std::string& keys, const Shape& input) {
    const std::vector<Shape> inputs{input};
    return make_layer({.kind = kind, .name = "work", .keys = keys, .inputs = {}})
        ->multiply_adds(inputs);
  };
  EXPECT_EQ(work("conv2d", "out=8\nkernel=3\npadding=1", {1, 5, 4, 6}), 5 * 4 * 8 * 9 * 6);
  EXPECT_EQ(work("conv2d", "out=8\nkernel=3\npadding=1\ngroups=2\nstride=2", {1, 5, 4, 6}),
            3 * 2 * 8 * 9 * 3);
  EXPECT_EQ(work("conv_bn", "out=8\nkernel=1", {2, 5, 4, 6}), 2 * 5 * 4 * 8 * 6);
  EXPECT_EQ(work("linear", "out=10", {3, 7}), 3 * 70);
  EXPECT_EQ(work("relu", "", {3, 7}), 0);
}

TEST(ShapeRules, AJoinDoesNotCountInASplitBackwardPass) {
  const auto elements = [](const std::string& keys, const std::vector<Shape>& inputs) {
    const LayerPtr layer =
        make_layer({.kind = "conv_bn", .name = "split", .keys = keys, .inputs = {}});
    return layer->split_elements(inputs, layer->output_shape(inputs));
  };
  const Shape x{2, 5, 4, 6};
  EXPECT_EQ(elements("out=8\nkernel=1", {x}), 2 * 5 * 4 * (6 + 8));
  EXPECT_EQ(elements("out=8\nkernel=1\nadd=true", {x, {2, 5, 4, 8}}), 2 * 5 * 4 * (6 + 8 + 8));
  EXPECT_EQ(elements("out=8\nkernel=1\njoin=true", {x, {2, 5, 4, 16}}), 2 * 5 * 4 * (6 + 8));
}

TEST(ShapeRules, TrafficIsOfTheParts) {
  const auto traffic = [](const std::string& kind, const std::string& keys,
                          const std::vector<Shape>& inputs, DType dtype = DType::f32) {
    return make_layer({.kind = kind, .name = "traffic", .keys = keys, .inputs = {}})
        ->traffic(inputs, dtype);
  };
  using Elements = std::vector<std::int64_t>;
  constexpr std::int64_t pixels = 2 * 5 * 4;
  const Shape x{2, 5, 4, 6};
  EXPECT_EQ(traffic("conv2d", "out=8\nkernel=1", {x}).inputs, Elements{pixels * 6});
  EXPECT_EQ(traffic("conv2d", "out=8\nkernel=1", {x}).product, pixels * 8);
  EXPECT_EQ(traffic("channel_slice", "first=1\ncount=2", {x}).inputs, Elements{pixels * 2});
  EXPECT_EQ(traffic("shuffle_join", "", {x, {2, 5, 4, 3}}).inputs,
            (Elements{pixels * 3, pixels * 3}));
  const Shape wide{2, 5, 4, 16};
  const LayerTraffic joined = traffic("conv_bn", "out=8\nkernel=1\njoin=true", {x, wide});
  EXPECT_EQ(joined.inputs, (Elements{pixels * 6, pixels * 8}));
  EXPECT_EQ(joined.product, pixels * 8);
  const std::string sum = "out=16\nkernel=1\nadd=true\nactivation='relu'";
  EXPECT_EQ(traffic("conv_bn", sum, {x, wide}).inputs, (Elements{pixels * 6, pixels * 16}));
  EXPECT_TRUE(traffic("conv_bn", sum, {x, wide}, DType::bf16).bits_for_output);
  EXPECT_FALSE(traffic("conv_bn", sum, {x, wide}).bits_for_output);
  EXPECT_FALSE(
      traffic("conv_bn", "out=16\nkernel=1\nactivation='relu'", {x}, DType::bf16).bits_for_output);
}

}  // namespace
}  // namespace tandem
