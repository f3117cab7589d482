#include "graph/norm_deferral.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/small_models.h"
#include "layers/convolution/deferred_norm.h"

namespace tandem {
namespace {

/// An H200's: how many clusters of 1, 2, 4 and 8 blocks it runs at once.
constexpr ResidentClusters clusters{.of_blocks = {132, 66, 33, 16}, .small_blocks = 528};

/// Statistics over ranks, of which there is one.
class OneRank : public RankSum {
  int ranks() const override { return 1; }
  void reserve(std::size_t /*count*/) override {}
  void sum(std::span<double> /*values*/) override {}
};

using Names = std::map<std::string, std::string>;

/// The makers and their readers, by name.
Names pairs_of(const Graph& graph) {
  const std::vector<int> readers = norm_readers(graph);
  Names names;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (readers[i] < 0) continue;
    names[graph.nodes()[i].name] = graph.nodes()[static_cast<std::size_t>(readers[i])].name;
  }
  return names;
}

Graph fused_model(const std::string& name, std::int64_t size) {
  return fuse(load_model(find_model(name), {.classes = 10, .size = size}));
}

TEST(NormReaders, AreTheDepthwiseConvolutionsBehindWideningOnes) {
  const Names mobile = pairs_of(fused_model("mobilenet_v2", 64));
  EXPECT_EQ(mobile.size(), 17U) << "the stem and sixteen blocks";
  EXPECT_EQ(mobile.at("features.0.0"), "features.1.conv.0.0");
  EXPECT_EQ(mobile.at("features.2.conv.0.0"), "features.2.conv.1.0");
  EXPECT_EQ(mobile.at("features.17.conv.0.0"), "features.17.conv.1.0");
  EXPECT_EQ(pairs_of(fused_model("efficientnet_b0", 64)).size(), 16U);
  const Names shuffle = pairs_of(fused_model("shufflenet_v2_x1_0", 64));
  EXPECT_EQ(shuffle.size(), 17U) << "and the stem";
  EXPECT_EQ(shuffle.at("stage2.0.branch2.0"), "stage2.0.branch2.3");
}

TEST(NormReaders, AreMaximaBehindTheStemAndSumsBehindShortcuts) {
  EXPECT_EQ(pairs_of(fused_model("resnet50", 64)),
            (Names{{"conv1", "maxpool"},
                   {"layer1.0.downsample.0", "layer1.0.conv3"},
                   {"layer2.0.downsample.0", "layer2.0.conv3"},
                   {"layer3.0.downsample.0", "layer3.0.conv3"},
                   {"layer4.0.downsample.0", "layer4.0.conv3"}}));
  EXPECT_EQ(pairs_of(fused_model("resnet18", 64)).size(), 4U);
  EXPECT_EQ(pairs_of(fused_model("shufflenet_v2_x1_0", 64)).at("conv1.0"), "maxpool");
}

/// A model of 8 channels whose maker is "a"; `second` is what follows it and its normalisation.
Graph small_model(const std::string& second) {
  return fuse(
      parse_model("channels = 3\nsize = 8\nclasses = 2\nnode = [\n"
                  "{name='a', op='conv2d', out=8, kernel=1}, {name='an', op='batch_norm'},\n" +
                      second +
                      "\n{name='pool', op='global_average_pool'}, "
                      "{name='fc', op='classifier'}]",
                  "small.toml", {}));
}

constexpr const char* depthwise =
    "{name='b', op='conv2d', out=8, kernel=3, padding=1, groups=8}, {name='bn', op='batch_norm'},";

TEST(NormReaders, NeedAnActivationAndNoSum) {
  const std::string relu = "{name='ar', op='relu'}, ";
  EXPECT_EQ(pairs_of(small_model(relu + depthwise)), (Names{{"a", "b"}}));
  EXPECT_TRUE(pairs_of(small_model(depthwise)).empty()) << "without an activation";
  EXPECT_EQ(pairs_of(small_model("{name='c', op='conv2d', out=8, kernel=1, from='input'}, "
                                 "{name='cn', op='batch_norm'}, "
                                 "{name='s', op='add', from=['an', 'cn']}, " +
                                 relu + depthwise)),
            (Names{{"c", "a"}}))
      << "of a sum, not behind it";
}

TEST(NormReaders, AreMaximaOfSomeWindowsAndPacksOfChannels) {
  const auto with = [](const std::string& keys, const std::string& activation = "relu") {
    return pairs_of(small_model("{name='ar', op='" + activation + "'}, {name='m', op='max_pool', " +
                                keys + "},"))
        .size();
  };
  EXPECT_EQ(with("kernel=3, stride=2, padding=1"), 1U);
  EXPECT_EQ(with("kernel=3, stride=2"), 1U);
  EXPECT_EQ(with("kernel=2"), 0U);
  EXPECT_EQ(with("kernel=3, stride=1, padding=1"), 0U);
  EXPECT_EQ(with("kernel=3, stride=2, padding=1", "relu6"), 0U);
}

TEST(NormReaders, AreSumsOfWhatHasNoActivation) {
  const auto with = [](const std::string& between) {
    return pairs_of(small_model(between +
                                "{name='c', op='conv2d', out=8, kernel=1, from='input'}, "
                                "{name='cn', op='batch_norm'}, "
                                "{name='s', op='add', from=['cn', '" +
                                (between.empty() ? "an" : "ar") + "']}, {name='sr', op='relu'},"));
  };
  EXPECT_EQ(with(""), (Names{{"c", "a"}}));
  EXPECT_TRUE(with("{name='ar', op='relu'}, ").empty());
}

TEST(NormReaders, OfASumHaveStatisticsAsTheMakers) {
  OneRank sum;
  const KernelRequest of_rank{.output = {8, 4, 4, 8}, .training = true};
  const KernelRequest folded{.output = {8, 4, 4, 8}, .training = true, .batch_groups = 2};
  const KernelRequest frozen{
      .output = {8, 4, 4, 8}, .training = true, .fixed_statistics = true, .batch_groups = 2};
  const KernelRequest of_ranks{.output = {8, 4, 4, 8}, .training = true, .rank_sum = &sum};
  const KernelRequest evaluation{.output = {8, 4, 4, 8}};
  for (const KernelRequest& each : {of_rank, folded, frozen, of_ranks, evaluation}) {
    EXPECT_TRUE(normalise_alike(each, each));
  }
  EXPECT_FALSE(normalise_alike(frozen, folded)) << "one group for two";
  EXPECT_FALSE(normalise_alike(folded, frozen));
  EXPECT_FALSE(normalise_alike(frozen, of_rank));
  EXPECT_TRUE(normalise_alike(frozen, of_ranks)) << "neither is of the rank alone";
}

TEST(NormReaders, AreTheOnlyOnes) {
  const std::string relu = "{name='ar', op='relu'}, ";
  EXPECT_TRUE(pairs_of(small_model(relu + depthwise + "{name='s', op='add', from=['bn', 'ar']}, "))
                  .empty());
}

TEST(NormReaders, HaveWindowsThatTheStripsTake) {
  const auto with = [](const std::string& keys) {
    return pairs_of(small_model("{name='ar', op='relu'}, {name='b', op='conv2d', out=8, " + keys +
                                "}, {name='bn', op='batch_norm'},"))
        .size();
  };
  EXPECT_EQ(with("kernel=5, padding=2, stride=2, groups=8"), 1U);
  EXPECT_EQ(with("kernel=7, padding=3, groups=8"), 0U);
  EXPECT_EQ(with("kernel=3, padding=0, groups=8"), 0U);
  EXPECT_EQ(with("kernel=3, padding=1, dilation=2, groups=8"), 0U);
  EXPECT_EQ(with("kernel=3, padding=1, groups=4"), 0U);
  EXPECT_EQ(with("kernel=3, padding=1"), 0U);
}

/// How many of a model's makers gain by leaving their normalisation, by default in training.
std::size_t gaining(const std::string& model, std::int64_t size, std::int64_t batch,
                    KernelRequest request = {.output = {}, .training = true}) {
  const Graph graph = fused_model(model, size);
  const std::vector<int> readers = norm_readers(graph);
  const auto options = [&](std::size_t node) {
    return dynamic_cast<const ConvBn&>(*graph.nodes()[node].layer).options();
  };
  std::size_t count = 0;
  request.precision = Precision::bf16;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (readers[i] < 0) continue;
    request.output = graph.output_shape(i, batch);
    const auto to = static_cast<std::size_t>(readers[i]);
    if (gains_by_deferring(options(i), request, *graph.nodes()[to].layer, clusters)) ++count;
  }
  return count;
}

TEST(GainsByDeferring, WhereTheNormalisationTakesTwoKernels) {
  EXPECT_EQ(gaining("mobilenet_v2", 224, 256), 17U);
  EXPECT_EQ(gaining("shufflenet_v2_x1_0", 224, 256), 17U);
  EXPECT_EQ(gaining("resnet50", 224, 256), 5U);
  EXPECT_EQ(gaining("mobilenet_v2", 32, 32), 0U);
}

TEST(GainsByDeferring, WhateverTheSizeWithStatisticsThatAreNotTheRanksOwn) {
  OneRank sum;
  EXPECT_EQ(gaining("mobilenet_v2", 32, 32, {.output = {}, .training = true, .rank_sum = &sum}),
            17U);
  EXPECT_EQ(
      gaining("mobilenet_v2", 32, 32, {.output = {}, .training = true, .fixed_statistics = true}),
      17U);
}

TEST(GainsByDeferring, NotSiluUnderLargeWindowsInTraining) {
  EXPECT_EQ(gaining("efficientnet_b0", 224, 128), 7U) << "3x3 ones alone";
  EXPECT_EQ(gaining("efficientnet_b0", 224, 128, {.output = {}, .training = false}), 16U);
}

TEST(GainsByDeferring, LeavesCpusAsTheyAre) {
  AnyContext context = cpu(1);
  const Graph graph = fused_model("mobilenet_v2", 32);
  ParameterStore store(graph, context, true);
  const StepPlan plan(graph, store, context,
                      {.batch = 2, .training = true, .norm_deferral = NormDeferral::always});
  const std::vector<bool> deferred = plan.deferred_norms();
  EXPECT_EQ(deferred.size(), graph.nodes().size());
  EXPECT_EQ(std::ranges::count(deferred, true), 0);
}

}  // namespace
}  // namespace tandem
