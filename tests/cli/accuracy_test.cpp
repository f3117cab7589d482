#include <nlohmann/json.hpp>

#include "cli/run_folder.h"

// End to end on real data: what ./quickstart.sh trains comes to the accuracy that it promises, and
// so do the weights that are exported from it.

namespace tandem::cli {
namespace {

using Accuracy = RunTest;

TEST_F(Accuracy, OfTheQuickstartIsAbove90Percent) {
  constexpr int ranks = 2;
  const std::vector<std::string> arguments{"train", TANDEM_QUICKSTART, "--out", "out"};
  const Outcome outcome =
      run({.command = on_ranks(ranks, arguments), .folder = root(), .timeout = 500.0});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Record last = read_metrics(path("out"), "evaluation").back();
  EXPECT_EQ(last["samples"], 10000);
  EXPECT_GE(last["top1"], 0.90);

  const std::string saved = checkpoint(path("out"), static_cast<int>(last["step"])).string();
  const Outcome exported = command({"weights", "export", saved, "weights.safetensors"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const Outcome evaluated =
      command({"eval", TANDEM_QUICKSTART, "--weights", "weights.safetensors", "--json"}, ranks);
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const auto result = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(result.at("samples"), 10000);
  EXPECT_EQ(result.at("top1").get<double>(), last["top1"]);
  EXPECT_NEAR(result.at("loss").get<double>(), last["loss"], 1e-6);
}

}  // namespace
}  // namespace tandem::cli
