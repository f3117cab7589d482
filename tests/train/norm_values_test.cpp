#include "train/norm_values.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "train/device_run.h"
#include "train/planned_run.h"

namespace tandem {
namespace {

/// Of ResNet-8, whose last stage has a quarter of the input's width and height.
std::string refusal(const std::vector<std::string>& settings, std::int64_t batch,
                    std::int64_t processes = 1) {
  std::vector<std::string> all{"model.name=resnet8", "data.height=4", "data.width=4"};
  all.insert(all.end(), settings.begin(), settings.end());
  const RunConfig config = run_with(all);
  const Graph graph = run_model(config, 4);
  try {
    require_values_to_normalise(graph, config, batch, processes);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(NormValues, OneOfAChannelIsRefusedWithTheLayer) {
  const std::string one = refusal({}, 1);
  EXPECT_NE(one.find("train.global_batch: "), std::string::npos) << one;
  EXPECT_NE(one.find("would normalise each channel over a single value"), std::string::npos) << one;
  EXPECT_NE(refusal({"parallel.folded_ranks=4", "train.global_batch=4"}, 4), "");
}

TEST(NormValues, MoreAreEnough) {
  EXPECT_EQ(refusal({}, 2), "") << "samples";
  EXPECT_EQ(refusal({"data.height=8", "data.width=8"}, 1), "") << "pixels";
  EXPECT_EQ(refusal({"parallel.folded_ranks=4", "train.global_batch=8"}, 8), "");
}

TEST(NormValues, AreCountedOverAllRanksWhereTheseNormaliseTogether) {
  EXPECT_NE(refusal({}, 1, 4), "");
  EXPECT_EQ(refusal({"train.sync_batch_norm=true"}, 1, 4), "");
  EXPECT_EQ(
      refusal({"train.sync_batch_norm=true", "parallel.folded_ranks=4", "train.global_batch=4"}, 4),
      "");
  EXPECT_NE(refusal({}, 1, 4).find("train.sync_batch_norm = true"), std::string::npos);
  EXPECT_NE(refusal({"train.sync_batch_norm=true"}, 1, 1), "");
}

TEST(NormValues, DoNotMatterWhereStatisticsAreFrozen) {
  EXPECT_EQ(refusal({"train.freeze=[\"conv1\", \"bn1\", \"layer1\", \"layer2\", \"layer3\"]"}, 1),
            "");
  EXPECT_NE(refusal({"train.freeze=[\"conv1\", \"bn1\", \"layer1\", \"layer2\", \"layer3\"]",
                     "train.freeze_statistics=false"},
                    1),
            "");
}

}  // namespace
}  // namespace tandem
