#include "train/placement_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

RunConfig config_with(const std::vector<std::string>& more) {
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
  for (const std::string& assignment : more) table.override_key(assignment);
  return read_run_config(table);
}

const PlacementHost host{
    .devices = "4 x NVIDIA H200", .driver = "580.65.06", .cores = 16, .build = "0123abff"};

PlacementKey key_of(const std::vector<std::string>& more, int hosts = 1) {
  return placement_key(config_with(more), host, hosts);
}

TEST(PlacementKey, ChangesWithWhateverDecidesSpeed) {
  const PlacementKey key = key_of({});
  for (const char* change : {"model.name=\"resnet20\"",
                             "model.dropout=0.1",
                             "data.size=24",
                             "data.channels=1",
                             "data.classes=100",
                             "data.augment.crop_padding=4",
                             "data.augment.flip=true",
                             "data.augment.randaugment_ops=2",
                             "data.augment.mixup=0.2",
                             "data.resize=48",
                             "train.global_batch=64",
                             "train.accumulate=2",
                             "train.precision=\"bf16\"",
                             "train.threads=3",
                             "train.side_stream=\"always\"",
                             "train.update_in_backward=false",
                             "train.sync_batch_norm=true",
                             "train.freeze=[\"conv1\"]",
                             "train.ema_decay=0.9",
                             "optimizer.kind=\"adamw\"",
                             "optimizer.clip_norm=1.0",
                             "parallel.bucket_mib=3",
                             "parallel.gradient_compression=\"bf16\""}) {
    EXPECT_NE(key_of({change}), key) << change;
  }
}

TEST(PlacementKey, StaysWithWhateverDoesNot) {
  const PlacementKey key = key_of({});
  for (const char* change :
       {"train.seed=7", "optimizer.lr=0.2", "train.epochs=9", "train.max_steps=3",
        "train.log_every=1", "data.workers=3", "data.seed=5", "data.train_size=4096",
        "data.test_size=16", "parallel.folded_ranks=2", "parallel.timeout_seconds=60",
        "checkpoint.keep=1", "data.augment.flip=false", "parallel.reduction=\"auto\""}) {
    EXPECT_EQ(key_of({change}), key) << change;
  }
}

TEST(PlacementKey, ChangesWithEachFactOfTheHost) {
  const RunConfig config = config_with({});
  const PlacementKey key = placement_key(config, host);
  for (std::string PlacementHost::*fact :
       {&PlacementHost::devices, &PlacementHost::driver, &PlacementHost::build}) {
    PlacementHost other = host;
    other.*fact += "x";
    EXPECT_NE(placement_key(config, other), key) << other.*fact;
  }
  PlacementHost other = host;
  other.cores = 8;
  EXPECT_NE(placement_key(config, other), key) << "cores";
}

TEST(PlacementKey, IsOfOneHostWithItsShareOfTheBatch) {
  EXPECT_EQ(key_of({"train.global_batch=64"}, 2), key_of({}));
  EXPECT_NE(key_of({}, 2), key_of({}));
  // What cannot be shared has no share, not one that is rounded.
  EXPECT_NE(key_of({"train.global_batch=65"}, 2), key_of({}));
}

TEST(PlacementKey, ChangesWithTheModelInAFileAndNotWithItsComments) {
  const TemporaryFolder folder;
  const auto key_with = [&](const std::string& model) {
    std::ofstream(folder / "net.toml") << model;
    return key_of({"model.name=\"" + (folder / "net.toml").string() + "\""});
  };
  const std::string model = "[[node]]\nname = \"conv1\"\nop = \"conv2d\"\nout = 16\nkernel = 3\n";
  const PlacementKey key = key_with(model);
  EXPECT_EQ(key.front().second, "net");
  EXPECT_EQ(key_with("# As it was.\n" + model), key);
  std::string wider = model;
  wider.replace(wider.find("16"), 2, "32");
  EXPECT_NE(key_with(wider), key);
  EXPECT_EQ(key_with(model), key);
}

}  // namespace
}  // namespace tandem
