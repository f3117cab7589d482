#include "train/placement_key.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

RunConfig config_with(const std::string& more) {
  ConfigTable table = ConfigTable::from_text(R"(
[model]
name = "resnet8"
[data]
kind = "synthetic"
train_size = 64
test_size = 8
[train]
epochs = 1
global_batch = 32
[optimizer]
kind = "sgd"
lr = 0.1
)",
                                             "run.toml");
  if (!more.empty()) table.override_key(more);
  return read_run_config(table);
}

PlacementKey key_of(const std::string& more) {
  return placement_key(config_with(more), {.name = "NVIDIA H200", .count = 4});
}

TEST(PlacementKey, ChangesWithWhateverDecidesSpeed) {
  const PlacementKey key = key_of("");
  for (const char* change :
       {"model.name=\"resnet20\"", "data.size=24", "data.channels=1", "train.global_batch=64",
        "train.accumulate=2", "train.precision=\"bf16\""}) {
    EXPECT_NE(key_of(change), key) << change;
  }
  EXPECT_NE(placement_key(config_with(""), {.name = "NVIDIA H100", .count = 4}), key);
  EXPECT_NE(placement_key(config_with(""), {.name = "NVIDIA H200", .count = 2}), key);
}

TEST(PlacementKey, StaysWithWhateverDoesNot) {
  const PlacementKey key = key_of("");
  for (const char* change :
       {"train.seed=7", "optimizer.lr=0.2", "train.epochs=9", "data.workers=3"}) {
    EXPECT_EQ(key_of(change), key) << change;
  }
}

}  // namespace
}  // namespace tandem
