#include "data/fingerprint.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "data/datasets/folder_dataset.h"
#include "data/datasets/synthetic_dataset.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// Labels and names alone.
class Listed final : public Dataset {
 public:
  struct Sample {
    std::int32_t label;
    std::string name;
  };
  Listed(std::vector<std::string> classes, std::vector<Sample> samples)
      : classes_(std::move(classes)), samples_(std::move(samples)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  int classes() const override { return static_cast<int>(classes_.size()); }
  int channels() const override { return 3; }
  std::int32_t label(std::int64_t index) const override { return at(index).label; }
  std::string_view sample_name(std::int64_t index) const override { return at(index).name; }
  Image load(std::int64_t /*index*/) const override { return {}; }
  std::string describe(std::int64_t /*index*/) const override { return {}; }
  std::vector<std::string> class_names() const override { return classes_; }

 private:
  const Sample& at(std::int64_t index) const {
    return samples_.at(static_cast<std::size_t>(index));
  }

  std::vector<std::string> classes_;
  std::vector<Sample> samples_;
};

/// classes, labels, samples: which are those of `expected`.
std::array<bool, 3> same(const Dataset& dataset, const Dataset& expected) {
  const DataFingerprint a = fingerprint_of(dataset);
  const DataFingerprint b = fingerprint_of(expected);
  EXPECT_EQ(a.classes, fingerprint_of_classes(dataset));
  return {a.classes == b.classes, a.labels == b.labels, a.samples == b.samples};
}

using Same = std::array<bool, 3>;

TEST(Fingerprint, TellsClassesLabelsAndNamesApart) {
  const Listed data({"cat", "dog"}, {{0, "a"}, {0, "bc"}, {1, "d"}});
  EXPECT_EQ(same(Listed({"cat", "dog"}, {{0, "a"}, {0, "bc"}, {1, "d"}}), data),
            (Same{true, true, true}));
  EXPECT_EQ(same(Listed({"cat", "dog"}, {{0, "ab"}, {0, "c"}, {1, "d"}}), data),
            (Same{true, true, false}));
  EXPECT_EQ(same(Listed({"cat", "dog"}, {{0, "bc"}, {0, "a"}, {1, "d"}}), data),
            (Same{true, true, false}));
  EXPECT_EQ(same(Listed({"cat", "dog"}, {{0, "a"}, {1, "bc"}, {1, "d"}}), data),
            (Same{true, false, false}));
  EXPECT_EQ(same(Listed({"cat", "dog"}, {{0, "a"}, {1, "bc"}, {0, "d"}}), data),
            (Same{true, false, false}));
  EXPECT_EQ(same(Listed({"dog", "cat"}, {{0, "a"}, {0, "bc"}, {1, "d"}}), data),
            (Same{false, false, false}));
  EXPECT_EQ(same(Listed({"ca", "tdog"}, {{0, "a"}, {0, "bc"}, {1, "d"}}), data),
            (Same{false, false, false}));
}

TEST(Fingerprint, DependsOnNoPathButTheSamples) {
  const TemporaryFolder temporary;
  const fs::path& root = temporary.path();
  for (const char* folder : {"here", "there", "other"}) {
    for (const char* file : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) {
      const fs::path path = root / folder / file;
      fs::create_directories(path.parent_path());
      std::ofstream(path) << "x";
    }
  }
  fs::rename(root / "other/cat/2.jpg", root / "other/cat/3.jpg");
  const FolderDataset here(root / "here");
  EXPECT_EQ(same(FolderDataset(root / "there"), here), (Same{true, true, true}));
  EXPECT_EQ(same(FolderDataset(root / "other"), here), (Same{true, true, false}));
}

/// Sets without names differ by their labels.
TEST(Fingerprint, OfNamelessSamples) {
  const auto data = [](std::int64_t size, std::int64_t first) {
    return fingerprint_of(SyntheticDataset({.size = size, .classes = 4, .first = first})).samples;
  };
  EXPECT_EQ(data(30, 0), data(30, 4));
  EXPECT_NE(data(30, 0), data(30, 1));
  EXPECT_NE(data(30, 0), data(31, 0));
}

}  // namespace
}  // namespace tandem
