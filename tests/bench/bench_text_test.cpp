#include "bench/bench_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/bench_json.h"

namespace tandem {
namespace {

/// Of two ranks on GPUs that do not tell everything.
BenchResult result() {
  BenchResult made;
  made.model = "net";
  made.device = "GPU X";
  made.precision = Precision::bf16;
  made.global_batch = 64;
  made.micro_batch = 32;
  made.alone = {.seconds = 0.5, .least_seconds = 0.4, .most_seconds = 0.6, .steps = 10};
  made.with_loader = {.seconds = 2.0, .least_seconds = 1.9, .most_seconds = 2.1, .steps = 10};
  made.ranks = {{.phases = {0.0, 0.1, 0.0, 0.2, 0.0, 0.1},
                 .data_wait_seconds = 1.0,
                 .loader_images_per_second = 20.0},
                {.phases = {0.0, 0.1, 0.0, 0.4, 0.0, 0.1},
                 .data_wait_seconds = 2.0,
                 .loader_images_per_second = 12.0}};
  LayerTime layer{.name = "conv1",
                  .what = "conv2d 3x3",
                  .output = "32x8x8x4",
                  .cost = {.forward_bytes = 1e9, .forward_operations = 3e12}};
  layer.forward_seconds = 0.25;
  made.times.layers = {layer};
  made.times.phases = made.ranks[0].phases;
  made.gpu = GpuActivity{.sm_activity = 0.75, .energy_joules = 160.0};
  made.joules_per_1000_images = 250.0;
  made.device_bytes = std::size_t{3} << 20U;
  return made;
}

TEST(BenchTextTest, TheRanksAreSummedUp) {
  const nlohmann::json json = nlohmann::json::parse(bench_json(result()));
  EXPECT_EQ(json["step"]["images_per_second"], 128.0);
  EXPECT_EQ(json["with_loader"]["images_per_second"], 32.0);
  EXPECT_EQ(json["with_loader"]["data_wait_seconds"], 1.5);
  EXPECT_EQ(json["loader"]["images_per_second"], 32.0);
  EXPECT_NEAR(json["phases"]["backward_seconds"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["ranks_measured"][1]["backward_seconds"], 0.4);
  EXPECT_EQ(json["achieved"]["operations_per_second"], 6e12);
  EXPECT_EQ(json["achieved"]["bytes_per_second"], 2e9);
}

TEST(BenchTextTest, OthersOnTheHostAreTold) {
  BenchResult made = result();
  for (RankMeasures& rank : made.ranks) {
    rank.host = 1;
    rank.measured_seconds = 2.0;
    rank.busy_seconds = 1.5;
    rank.host_busy_seconds = 5.0;
    rank.host_processors = 4;
  }
  const auto json = [&] { return nlohmann::json::parse(bench_json(made)); };
  EXPECT_EQ(json()["others_share"], 0.25);  // 5 - 2 * 1.5 of 2 * 4 seconds
  EXPECT_NE(bench_text(made, false).find("others than these ranks had 25.0 % of this host's"),
            std::string::npos)
      << bench_text(made, false);
  made.ranks[1].host = 2;
  EXPECT_EQ(json()["others_share"], 3.5 / 8.0);
  made.ranks[0].host_busy_seconds = 1.7;
  EXPECT_EQ(bench_text(made, false).find("others than these ranks"), std::string::npos);
  made.ranks[0].host_busy_seconds = -1.0;
  EXPECT_EQ(json()["others_share"], "unavailable");
}

TEST(BenchTextTest, FoldedRanksAreCounted) {
  BenchResult folded = result();
  folded.folded_ranks = 4;
  const nlohmann::json json = nlohmann::json::parse(bench_json(folded));
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["processes"], 2);
  EXPECT_EQ(json["folded_ranks"], 4);
  EXPECT_EQ(json["step"]["images_per_second"], 128.0);
  EXPECT_NE(bench_text(folded, false)
                .find("net, bf16 on 8 ranks folded into 2 processes of GPU X, global "
                      "batch 64 (micro-batches of 8 a rank)"),
            std::string::npos);
  for (const std::string what : {"memory of a ", "achieved by a "}) {
    EXPECT_NE(bench_text(folded, false).find(what + "process: "), std::string::npos) << what;
    EXPECT_NE(bench_text(result(), false).find(what + "rank: "), std::string::npos) << what;
  }
}

TEST(BenchTextTest, UpdatesInBackwardAreTold) {
  BenchResult made = result();
  const auto tells = [&](const std::string& words) {
    return bench_text(made, false).find(words) != std::string::npos;
  };
  EXPECT_FALSE(tells("within backward"));
  EXPECT_FALSE(tells("the bucket's update"));
  EXPECT_EQ(nlohmann::json::parse(bench_json(made))["updates_in_backward"], false);
  made.updates_in_backward = true;
  EXPECT_TRUE(tells("updated within backward; parallel.sharded_update = false tells"));
  EXPECT_TRUE(tells("has the bucket's update in it"));
  EXPECT_EQ(nlohmann::json::parse(bench_json(made))["updates_in_backward"], true);
  made.side_layers = 3;
  EXPECT_FALSE(tells("the bucket's update")) << "which is not in the layers' times then";
  made.ranks.pop_back();
  EXPECT_TRUE(tells("updated within backward; train.update_in_backward = false tells"));
}

TEST(BenchTextTest, TellsHowManyKernelsAreBorrowed) {
  BenchResult made = result();
  EXPECT_EQ(nlohmann::json::parse(bench_json(made))["start"]["borrowed_kernels"], 0);
  made.borrowed_kernels = 3;
  EXPECT_EQ(nlohmann::json::parse(bench_json(made))["start"]["borrowed_kernels"], 3);
}

TEST(BenchTextTest, WhatWasNotMeasuredIsUnavailable) {
  const nlohmann::json json = nlohmann::json::parse(bench_json(result()));
  EXPECT_EQ(json["ceilings"]["bytes_per_second"], "unavailable");
  EXPECT_EQ(json["ceilings"]["operations_per_second"]["bf16"], "unavailable");
  EXPECT_EQ(json["layers"][0]["floor_seconds"], "unavailable");
  EXPECT_EQ(json["gpu"]["sm_activity"], 0.75);
  EXPECT_EQ(json["gpu"]["dram_activity"], "unavailable");
  const std::string text = bench_text(result(), false);
  EXPECT_NE(text.find("bf16 product unavailable, copy unavailable"), std::string::npos) << text;
  EXPECT_NE(text.find("multiprocessors at work 75.0 %, occupancy unavailable"), std::string::npos)
      << text;
}

TEST(BenchTextTest, CountersOfTooShortAStretchAreUnavailable) {
  BenchResult made = result();
  made.gpu.reset();
  made.joules_per_1000_images.reset();
  const nlohmann::json json = nlohmann::json::parse(bench_json(made));
  ASSERT_TRUE(json.contains("gpu"));
  EXPECT_EQ(json["gpu"], "unavailable");
  EXPECT_EQ(bench_text(made, false).find("multiprocessors"), std::string::npos);
}

TEST(BenchTextTest, OnACpuThereIsNothingOfAGpu) {
  BenchResult made = result();
  made.threads = 2;
  made.gpu.reset();
  made.device_bytes.reset();
  const nlohmann::json json = nlohmann::json::parse(bench_json(made));
  EXPECT_FALSE(json.contains("gpu"));
  EXPECT_EQ(json["memory"]["device_bytes"], "unavailable");
  EXPECT_EQ(bench_text(made, false).find("multiprocessors"), std::string::npos);
}

TEST(BenchTextTest, LayersAreShownWhereAskedFor) {
  EXPECT_EQ(bench_text(result(), false).find("conv1"), std::string::npos);
  const std::string text = bench_text(result(), true);
  EXPECT_NE(text.find("   1 conv2d 3x3 "), std::string::npos) << text;
  EXPECT_NE(text.find("conv1 conv2d 3x3 32x8x8x4 "), std::string::npos) << text;
  EXPECT_NE(text.find("    12.0      4.0"), std::string::npos) << "TFLOP/s and GB/s in\n" << text;
}

TEST(BenchTextTest, SeveralRanksShowTheSlowest) {
  const std::string text = bench_text(result(), false);
  EXPECT_NE(text.find("backward                   300.000      60.0 %             400.000"),
            std::string::npos)
      << text;
  BenchResult one = result();
  one.ranks.resize(1);
  EXPECT_EQ(bench_text(one, false).find("longest on a rank"), std::string::npos);
}

}  // namespace
}  // namespace tandem
