#include <algorithm>

#include "cli/photos.h"
#include "cli/run_folder.h"

// Every run in examples/ does two steps and an evaluation on small data of its format.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// Run files below examples/: those that choose data. Model files lie there too.
std::vector<std::string> examples() {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(TANDEM_EXAMPLES)) {
    if (entry.path().extension() == ".toml" &&
        read_file(entry.path()).find("\n[data]") != std::string::npos) {
      found.push_back(fs::relative(entry.path(), TANDEM_EXAMPLES).string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

using tandem::testing::Bytes;

void write_bytes(const fs::path& file, const Bytes& bytes) {
  write_file(file, std::string(bytes.begin(), bytes.end()));
}

/// 16 gray images of 28 x 28 and their labels, in the IDX format.
void write_idx(const fs::path& images, const fs::path& labels) {
  Bytes pixels{0, 0, 8, 3, 0, 0, 0, 16, 0, 0, 0, 28, 0, 0, 0, 28};
  for (int i = 0; i < 16 * 28 * 28; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 7));
  Bytes classes{0, 0, 8, 1, 0, 0, 0, 16};
  for (int i = 0; i < 16; ++i) classes.push_back(static_cast<std::uint8_t>(i % 10));
  write_bytes(images, pixels);
  write_bytes(labels, classes);
}

/// Sixteen records of `label_bytes` labels and 3 x 32 x 32 pixels.
void write_cifar(const fs::path& file, int label_bytes) {
  Bytes records;
  for (int record = 0; record < 16; ++record) {
    for (int i = 0; i < label_bytes; ++i) records.push_back(static_cast<std::uint8_t>(record % 10));
    for (int i = 0; i < 3072; ++i) records.push_back(static_cast<std::uint8_t>(i * (record + 3)));
  }
  write_bytes(file, records);
}

/// Weights to start from, as a run of the same model leaves them.
fs::path train_weights(const std::string& model, const fs::path& folder) {
  std::vector<std::string> arguments{
      "train", std::string(TANDEM_EXAMPLES) + "/synthetic/resnet8.toml", "--out", folder.string()};
  const std::vector<std::string> small =
      set({"model.name=" + model, "train.max_steps=1", "train.threads=1", "train.global_batch=4",
           "data.train_size=4", "data.test_size=4"});
  arguments.insert(arguments.end(), small.begin(), small.end());
  const Outcome outcome = run({.command = tandem(arguments), .folder = {}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return folder / "checkpoints" / "best.safetensors";
}

/// Small data in place of what a user would bring, and what to set for it, by the example's folder.
std::vector<std::string> stand_in(const std::string& example, const fs::path& folder) {
  fs::create_directories(folder);
  const std::string at = folder.string();
  if (example.starts_with("fashion_mnist/")) {
    write_idx(folder / "images", folder / "labels");
    return set({"data.train_images=" + at + "/images", "data.train_labels=" + at + "/labels",
                "data.test_images=" + at + "/images", "data.test_labels=" + at + "/labels"});
  }
  if (example.starts_with("synthetic/")) return set({"data.train_size=16", "data.test_size=8"});
  if (example.starts_with("cifar100")) {
    write_cifar(folder / "train.bin", 2);
    write_cifar(folder / "test.bin", 2);
  } else if (example.starts_with("cifar10")) {
    for (int i = 1; i <= 5; ++i) {
      write_cifar(folder / ("data_batch_" + std::to_string(i) + ".bin"), 1);
    }
    write_cifar(folder / "test_batch.bin", 1);
  } else {
    write_photos(folder, {.classes = {"hat", "shoe"}, .count = 8, .height = 90, .width = 80});
    // Full size would take this test's time.
    const std::vector<std::string> smaller =
        set({"data.path=" + at, "data.size=64", "data.resize=72"});
    if (example != "photos/transfer.toml") return smaller;
    const fs::path weights = train_weights("shufflenet_v2_x1_0", folder / "pretraining");
    return set({"train.init=" + weights.string()}, smaller);
  }
  return set({"data.path=" + at});
}

class Example : public RunTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(Example, TrainsTwoStepsAndEvaluates) {
  // As the README starts them: from the source tree, under a limit of two steps.
  std::vector<std::string> arguments{"train", std::string(TANDEM_EXAMPLES) + "/" + GetParam(),
                                     "--out", path("out").string()};
  const std::vector<std::string> more =
      set({"train.max_steps=2", "train.threads=1", "train.global_batch=8", "train.eval_batch=8"},
          stand_in(GetParam(), path("data")));
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run({.command = tandem(arguments),
                               .folder = fs::path(TANDEM_EXAMPLES).parent_path(),
                               .environment = {{"HOME", root().string()}}});
  ASSERT_FALSE(outcome.timed_out) << outcome.err;
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(checkpoint_steps(path("out")).back(), 2);
  EXPECT_EQ(read_metrics(path("out"), "evaluation").size(), 1U);
}

class OwnModel : public RunTest {
 protected:
  Outcome from_the_source_tree(const std::vector<std::string>& arguments) {
    return run({.command = tandem(arguments),
                .folder = fs::path(TANDEM_EXAMPLES).parent_path(),
                .environment = {{"HOME", root().string()}}});
  }
};

TEST_F(OwnModel, IsShownAndTrainedAsTheDocumentsSay) {
  const std::string model = "examples/custom_model/tiny_net.toml";
  const Outcome shown = from_the_source_tree({"models", model});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find(model), std::string::npos) << shown.out;
  for (const char* document : {"docs/extending.md", "docs/model_files.md"}) {
    const std::string text = read_file(fs::path(TANDEM_EXAMPLES).parent_path() / document);
    EXPECT_NE(text.find("tandem models " + model + "\n" + shown.out), std::string::npos)
        << document << " has not\n"
        << shown.out;
  }
  const Outcome trained = from_the_source_tree(
      {"train", "examples/synthetic/resnet8.toml", "--out", path("out").string(), "--set",
       "model.name=" + model, "--set", "train.max_steps=2", "--set", "train.threads=1"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(checkpoint_steps(path("out")).back(), 2);
}

TEST(Examples, AreThereAndInTheTable) {
  EXPECT_GE(examples().size(), 1U) << TANDEM_EXAMPLES;
  const std::string table = read_file(fs::path(TANDEM_EXAMPLES) / "README.md");
  for (const std::string& example : examples()) {
    EXPECT_NE(table.find("\n| `" + example + "` |"), std::string::npos) << example;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Example, ::testing::ValuesIn(examples()),
                         [](const ::testing::TestParamInfo<std::string>& each) {
                           std::string name = each.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::cli
