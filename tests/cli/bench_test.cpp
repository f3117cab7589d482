#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/message_check.h"
#include "cli/run_folder.h"

// tandem bench: the table, the JSON file, and what a user can get wrong.

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

class Bench : public RunTest {
 protected:
  Outcome bench(const std::vector<std::string>& more, int ranks = 1) const {
    std::vector<std::string> arguments{"bench", "run.toml", "--seconds", "0.05"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command(arguments, ranks);
  }
};

class BenchOnRanks : public Bench, public testing::WithParamInterface<int> {};

TEST_P(BenchOnRanks, ShowsATableAndWritesJson) {
  const int ranks = GetParam();
  const Outcome outcome = bench({"--json", "bench.json", "--layers"}, ranks);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"resnet8, fp32", "global batch 32", "step on one batch",
                           "step with the loader", "loader alone", "waiting for data", "backward",
                           "communication", "update", "layers of a kind", "conv_bn 3x3/2",
                           "layer2.0.conv1", "linear", "achieved", "ceilings", "activations"}) {
    EXPECT_EQ(occurrences(outcome.out, part) > 0, true) << part << " is missing in\n"
                                                        << outcome.out;
  }
  EXPECT_EQ(occurrences(outcome.out, "global batch"), 1U) << "one rank tells";
  EXPECT_EQ(outcome.err.rfind("measuring a training step of resnet8 on ", 0), 0U) << outcome.err;

  const Json json = Json::parse(read_file(path("bench.json")));
  EXPECT_EQ(json["model"], "resnet8");
  EXPECT_EQ(json["ranks"], ranks);
  EXPECT_EQ(json["micro_batch"], 32 / ranks);
  EXPECT_EQ(json["ranks_measured"].size(), static_cast<std::size_t>(ranks));
  EXPECT_FALSE(json.contains("gpu"));
  EXPECT_EQ(json["memory"]["device_bytes"], "unavailable");
  EXPECT_GE(json["others_share"].get<double>(), 0.0);
  EXPECT_LE(json["others_share"].get<double>(), 1.0);
  for (const char* what : {"step", "with_loader", "loader"}) {
    EXPECT_GT(json[what]["images_per_second"].get<double>(), 0.0) << what;
  }
  EXPECT_GT(json["ceilings"]["bytes_per_second"].get<double>(), 0.0);
  EXPECT_GT(json["achieved"]["operations_per_second"].get<double>(), 0.0);
  const Json& phases = json["phases"];
  EXPECT_GT(phases["forward_seconds"].get<double>(), 0.0);
  EXPECT_GT(phases["backward_seconds"].get<double>(), phases["update_seconds"].get<double>());
  EXPECT_EQ(json["threads_per_rank"], 1);
  double layers = 0.0;
  for (const Json& layer : json["layers"]) {
    EXPECT_GT(layer["forward_seconds"].get<double>(), 0.0) << layer;
    EXPECT_GT(layer["backward_seconds"].get<double>(), 0.0) << layer;
    layers += layer["forward_seconds"].get<double>() + layer["backward_seconds"].get<double>();
  }
  const Json& own = json["ranks_measured"][0];
  EXPECT_NEAR(layers, own["forward_seconds"].get<double>() + own["backward_seconds"].get<double>(),
              1e-9);
}

INSTANTIATE_TEST_SUITE_P(Ranks, BenchOnRanks, testing::Values(1, 2));

TEST_F(Bench, ShowsNoLayersOfWhatItLeavesOut) {
  const Outcome outcome = bench({"--rates-only", "--layers"}, 1);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("--rates-only excludes --layers"), std::string::npos) << outcome.err;
}

TEST_F(Bench, LeavesOutWhatIsNotAskedFor) {
  const Outcome outcome = bench({"--json", "bench.json", "--rates-only"}, 2);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "step with the loader"), 1U);
  EXPECT_EQ(occurrences(outcome.out, "layers of a kind"), 0U);
  const Json json = Json::parse(read_file(path("bench.json")));
  EXPECT_GT(json["with_loader"]["images_per_second"].get<double>(), 0.0);
  EXPECT_EQ(json["devices"], 1) << "two ranks on one host";
  for (const char* detail : {"phases", "ceilings", "layers"}) EXPECT_FALSE(json.contains(detail));
}

TEST_F(Bench, CountsFoldedRanks) {
  const Outcome outcome = bench({"--json", "bench.json", "--set", "parallel.folded_ranks=4"}, 2);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "8 ranks folded into 2 processes"), 1U) << outcome.out;
  const Json json = Json::parse(read_file(path("bench.json")));
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["processes"], 2);
  EXPECT_EQ(json["folded_ranks"], 4);
  EXPECT_EQ(json["micro_batch"], 16);
  EXPECT_EQ(json["ranks_measured"].size(), 2U);
}

TEST_F(Bench, LeavesNoRunBehind) {
  ASSERT_EQ(bench(set({"train.accumulate=2", "optimizer.clip_norm=1.0"})).code, 0);
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

TEST_F(Bench, WhatIsWrongIsToldInOneLine) {
  expect_one_message(bench(set({"train.globl_batch=3"})), {"globl_batch", "unknown key"});
  expect_one_message(
      bench(set({"data.height=4", "data.width=4", "train.global_batch=1"})),
      {"--set train.global_batch=1: train.global_batch: layer 'layer3.0.bn1' would normalise each "
       "channel over a single value, one pixel of one sample"});
  expect_one_message(bench({"--json", "missing/bench.json"}), {"missing/bench.json", "written"});
  write_file(path("notes.md"), "# Notes\n");
  expect_one_message(bench({"--json", "notes.md"}), {"'notes.md' exists and is no JSON object"});
  EXPECT_EQ(read_file(path("notes.md")), "# Notes\n");
  expect_one_message(command({"bench", "nowhere.toml"}), {"nowhere.toml"});
  expect_one_message(bench(set({"train.global_batch=33"}), 2), {"train.global_batch"});
  EXPECT_EQ(command({"bench", "run.toml", "--seconds", "0"}).code, 2);
}

}  // namespace
}  // namespace tandem::cli
