#include "data/data_config.h"
#include "data/datasets/cifar_dataset.h"
#include "data/jpeg_writer.h"

namespace tandem::testing {
namespace {

DataConfig read(const std::string& text) {
  const ConfigTable root = ConfigTable::from_text("[data]\n" + text, "run.toml");
  DataConfig config = read_data_config(root.table("data"));
  root.finish();
  return config;
}

const std::string synthetic = "kind = 'synthetic'\ntrain_size = 20\ntest_size = 10\n";

TEST(DataConfig, ReadsSynthetic) {
  const DataConfig config = read(synthetic +
                                 "classes = 7\nheight = 12\nwidth = 12\nseed = 3\nchannels = 1\n"
                                 "mean = 0.25\nstd = [0.5]\nworkers = 3\nprefetch = 2\n"
                                 "[data.augment]\ncrop_padding = 2\nflip = true\n"
                                 "mixup = 0.2\ncutmix = 1\n");
  EXPECT_EQ(config.kind, DataKind::synthetic);
  EXPECT_EQ(config.transform.size, 12);
  EXPECT_EQ(config.transform.channels, 1);
  EXPECT_EQ(config.transform.mean, std::vector<float>{0.25F});
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config.prefetch, 2);
  const Datasets sets = open_datasets(config);
  EXPECT_EQ(sets.train->size(), 20);
  EXPECT_EQ(sets.test->size(), 10);
  EXPECT_EQ(sets.test->classes(), 7);
  EXPECT_EQ(sets.train->channels(), 1);
  EXPECT_NE(sets.train->load(0).pixels, sets.test->load(0).pixels);
  EXPECT_TRUE(make_transform(config, true).options().train);
  EXPECT_TRUE(make_transform(config, true).options().flip);
  EXPECT_EQ(make_transform(config, true).options().crop_padding, 2);
  EXPECT_FALSE(make_transform(config, false).options().train);
  EXPECT_EQ(config.mix.mixup, 0.2);
  EXPECT_EQ(config.mix.cutmix, 1.0);
}

TEST(DataConfig, HasDefaults) {
  const DataConfig config = read(synthetic);
  EXPECT_EQ(config.transform.size, 32);
  EXPECT_EQ(config.transform.channels, 3);
  EXPECT_EQ(config.transform.mean, std::vector<float>(3, 0.5F));
  EXPECT_EQ(config.transform.deviation, std::vector<float>(3, 0.5F));
  EXPECT_EQ(config.transform.crop_padding, -1);
  EXPECT_FALSE(config.transform.flip);
  EXPECT_FALSE(config.mix.on());
  EXPECT_EQ(config.workers, 1);
  EXPECT_EQ(config.prefetch, 4);
}

TEST(DataConfig, NamesBadKeysAndValues) {
  expect_input_error([] { read("kind = 'sythetic'\n"); },
                     {"run.toml:2: data.kind", "did you mean 'synthetic'"});
  expect_input_error([] { read("kind = 'synthetic'\ntrain_size = 100000001\ntest_size = 10\n"); },
                     {"run.toml:3: data.train_size", "the most is 100000000"});
  expect_input_error([] { read(synthetic + "worker = 2\n"); },
                     {"run.toml:5: data.worker", "did you mean 'workers'"});
  expect_input_error([] { read(synthetic + "[data.augment]\nflipp = true\n"); },
                     {"run.toml:6: data.augment.flipp", "did you mean 'flip'"});
  expect_input_error([] { read(synthetic + "path = 'x'\n"); }, {"data.path", "unknown key"});
  expect_input_error(
      [] { read(synthetic + "width = 16\n"); },
      {"data.size: missing", "the side of the square that images of 16 x 32 pixels become"});
  expect_input_error([] { read(synthetic + "channels = 2\n"); }, {"data.channels", "1 (gray)"});
  expect_input_error([] { read(synthetic + "mean = [0.1, 0.2]\n"); },
                     {"data.mean", "2 numbers for 3 channels"});
  expect_input_error([] { read(synthetic + "mean = 123.0\n"); }, {"data.mean", "0 to 1"});
  expect_input_error([] { read(synthetic + "std = 0.0\n"); }, {"data.std"});
  expect_input_error([] { read(synthetic + "resize = 31\n"); }, {"data.resize", "32"});
  expect_input_error([] { read(synthetic + "workers = 0\n"); }, {"data.workers"});
  expect_input_error([] { read(synthetic + "height = 20\n"); }, {"data.size", "missing"});
  expect_input_error([] { read(synthetic + "[data.augment]\nscale = [0.1, 1.0]\n"); },
                     {"data.augment.scale", "random_resized_crop"});
  expect_input_error([] { read(synthetic + "[data.augment]\nmixup = -0.1\n"); },
                     {"run.toml:6: data.augment.mixup", "-0.1", "0"});
  expect_input_error([] { read(synthetic + "[data.augment]\ncutmix = nan\n"); },
                     {"run.toml:6: data.augment.cutmix"});
  expect_input_error([] { read(synthetic + "[data.augment]\ncutmix = 'on'\n"); },
                     {"run.toml:6: data.augment.cutmix"});
  const std::string rrc = synthetic + "[data.augment]\nrandom_resized_crop = true\n";
  expect_input_error([&] { read(rrc + "crop_padding = 4\n"); }, {"data.augment.crop_padding"});
  expect_input_error([&] { read(rrc + "scale = [0.5, 0.1]\n"); }, {"data.augment.scale"});
  expect_input_error([&] { read(rrc + "ratio = [0.5]\n"); }, {"two numbers"});
  EXPECT_EQ(read(rrc + "scale = [0.5, 0.75]\n").transform.ranges.scale_high, 0.75);
}

TEST(DataConfig, ReadsRandAugment) {
  const std::string augment = synthetic + "[data.augment]\n";
  EXPECT_EQ(read(augment).transform.rand_augment.ops, 0);
  const auto given = [&](const std::string& keys) {
    const RandAugmentOptions options = read(augment + keys).transform.rand_augment;
    return std::pair{options.ops, options.magnitude};
  };
  EXPECT_EQ(given("randaugment_ops = 2\n"), std::pair(2, 9));
  EXPECT_EQ(given("randaugment_ops = 1\nrandaugment_magnitude = 30\n"), std::pair(1, 30));
  EXPECT_EQ(given("random_resized_crop = true\nrandaugment_ops = 3\n"), std::pair(3, 9));
  expect_input_error([&] { given("randaugment_magnitude = 9\n"); },
                     {"run.toml:6: data.augment.randaugment_magnitude", "randaugment_ops"});
  expect_input_error([&] { given("randaugment_ops = 0\nrandaugment_magnitude = 9\n"); },
                     {"run.toml:7: data.augment.randaugment_magnitude", "randaugment_ops"});
  expect_input_error([&] { given("randaugment_ops = 2\nrandaugment_magnitude = 31\n"); },
                     {"data.augment.randaugment_magnitude", "30"});
  expect_input_error([&] { given("randaugment_ops = -1\n"); }, {"data.augment.randaugment_ops"});
  expect_input_error([&] { given("randaugment_op = 2\n"); },
                     {"data.augment.randaugment_op", "did you mean 'randaugment_ops'"});
}

TEST(DataConfig, KeepsWhatItWroteAboutRandAugment) {
  const std::string augment = "[data]\n" + synthetic + "[data.augment]\n";
  for (const char* keys : {"", "randaugment_ops = 2\n"}) {
    const ConfigTable root = ConfigTable::from_text(augment + keys, "run.toml");
    const DataConfig first = read_data_config(root.table("data"));
    const ConfigTable kept = ConfigTable::from_text(root.to_toml(), "config.toml");
    const DataConfig again = read_data_config(kept.table("data"));
    EXPECT_EQ(again.transform.rand_augment.ops, first.transform.rand_augment.ops);
    EXPECT_EQ(again.transform.rand_augment.magnitude, first.transform.rand_augment.magnitude);
  }
}

TEST(DataConfig, ReadsIdxWithItsOwnSize) {
  const TemporaryFolder folder;
  const Bytes images{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4};
  const Bytes labels{0, 0, 8, 1, 0, 0, 0, 1, 3};
  write_file(folder / "i", gzipped(images));
  write_file(folder / "l", labels);
  const std::string root = folder.path().string();
  const std::string files = "kind = 'idx'\ntrain_images = '" + root + "/i'\ntrain_labels = '" +
                            root + "/l'\ntest_images = '" + root + "/i'\ntest_labels = '" + root;
  const DataConfig config = read(files + "/l'\n");
  EXPECT_EQ(config.transform.size, 2);
  EXPECT_EQ(config.transform.channels, 1);
  EXPECT_EQ(open_datasets(config).train->label(0), 3);
  EXPECT_EQ(open_test_dataset(config)->classes(), 10);
  expect_input_error([&] { read(files + "/none'\n"); },
                     {"run.toml:6: data.test_labels", root + "/none", "no such file"});
}

TEST(DataConfig, ReadsFolders) {
  const TemporaryFolder folder;
  const Bytes jpeg = write_jpeg(smooth(8, 12, 3), {});
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "val/b/1.jpg"}) {
    write_file(folder / name, jpeg);
  }
  const std::string path = "kind = 'folder'\npath = '" + folder.path().string() + "'\n";
  const DataConfig config = read(path + "size = 8\n");
  const Datasets sets = open_datasets(config);
  EXPECT_EQ(sets.train->size(), 2);
  EXPECT_EQ(sets.test->label(0), 1);
  EXPECT_EQ(open_test_dataset(config)->label(0), 1);
  expect_input_error([&] { read(path); }, {"data.size", "missing"});
  expect_input_error([&] { read(path + "size = 8\ntrain_path = 'x'\n"); },
                     {"data.train_path", "x: no such folder"});
  std::filesystem::remove_all(folder / "val");
  expect_input_error([&] { read(path + "size = 8\n"); }, {"run.toml:3: data.path", "validation/"});
  write_file(folder / "elsewhere/a/1.jpg", jpeg);
  const std::string root = folder.path().string();
  EXPECT_EQ(open_datasets(read("kind = 'folder'\nsize = 8\ntrain_path = '" + root +
                               "/train'\ntest_path = '" + root + "/elsewhere'\n"))
                .test->label(0),
            0);
}

TEST(DataConfig, ReadsCifarAndExpandsHome) {
  const TemporaryFolder folder;
  const Bytes records(2 * 3074, 5);
  write_file(folder / "c/train.bin", records);
  const char* const before = std::getenv("HOME");
  const std::string kept = before != nullptr ? before : "";
  ASSERT_EQ(::setenv("HOME", folder.path().c_str(), 1), 0);
  expect_input_error([] { read("kind = 'cifar100'\npath = '~/c'\n"); },
                     {"run.toml:3: data.path", (folder / "c/test.bin").string()});
  write_file(folder / "c/test.bin", records);
  const DataConfig config = read("kind = 'cifar100'\npath = '~/c'\n");
  EXPECT_EQ(config.transform.size, 32);
  EXPECT_EQ(open_datasets(config).test->size(), 2);
  expect_input_error([] { read("kind = 'cifar10'\npath = '~/none'\n"); }, {"no such folder"});
  if (before != nullptr) {
    ASSERT_EQ(::setenv("HOME", kept.c_str(), 1), 0);
  }
}

TEST(DataConfig, PathsThatCannotBeLookedAtAreToldSo) {
  const TemporaryFolder folder;
  const std::filesystem::path loop = folder.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  const std::string line = fmt::format("path = '{}'\n", (loop / "data").string());
  for (const char* kind : {"kind = 'cifar10'\n", "kind = 'folder'\nsize = 8\n"}) {
    expect_input_error([&] { read(kind + line); },
                       {"data.path", "Too many levels of symbolic links"});
  }
}

}  // namespace
}  // namespace tandem::testing
