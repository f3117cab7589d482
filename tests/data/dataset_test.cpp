#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/datasets/cifar_dataset.h"
#include "data/datasets/folder_dataset.h"
#include "data/datasets/synthetic_dataset.h"
#include "data/jpeg_writer.h"
#include "support/no_file_more.h"

namespace tandem::testing {
namespace {

/// `count` records with labels (first + i) % classes; CIFAR-100 has a coarse label, here 19.
Bytes cifar_records(CifarKind kind, int count, int first) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    if (kind == CifarKind::cifar100) bytes.push_back(19);
    bytes.push_back(static_cast<std::uint8_t>((first + i) % 10));
    for (int p = 0; p < 3072; ++p) {
      bytes.push_back(static_cast<std::uint8_t>(p / 1024 * 80 + (p * 3 + first + i) % 79));
    }
  }
  return bytes;
}

TEST(Cifar, ReadsRecordsOverSeveralFiles) {
  const TemporaryFolder folder;
  const auto files = cifar_files(folder.path(), CifarKind::cifar10, true);
  ASSERT_EQ(files.size(), 5U);
  EXPECT_EQ(files[4].filename(), "data_batch_5.bin");
  for (int i = 0; i < 5; ++i) {
    write_file(files[static_cast<std::size_t>(i)],
               cifar_records(CifarKind::cifar10, i + 1, 100 * i));
  }
  const CifarDataset data(files, CifarKind::cifar10);
  ASSERT_EQ(data.size(), 15);
  EXPECT_EQ(data.classes(), 10);
  EXPECT_EQ(data.class_names()[3], "3");
  EXPECT_EQ(data.describe(5), files[2].string() + ", sample 2");
  EXPECT_EQ(data.label(5), 2);
  const Image image = data.load(5);
  ASSERT_EQ(image.pixels.size(), 3072U);
  for (int p = 0; p < 1024; ++p) {
    for (int c = 0; c < 3; ++c) {
      const int q = c * 1024 + p;
      ASSERT_EQ(at(image, p / 32, p % 32, c), c * 80 + (q * 3 + 200 + 2) % 79);
    }
  }
  EXPECT_THROW(static_cast<void>(data.label(15)), Error);
}

TEST(Cifar, UsesFineLabelsAndNames) {
  const TemporaryFolder folder;
  const auto files = cifar_files(folder.path(), CifarKind::cifar100, false);
  ASSERT_EQ(files, std::vector<std::filesystem::path>{folder / "test.bin"});
  write_file(files[0], cifar_records(CifarKind::cifar100, 12, 0));
  Bytes names;
  for (int i = 0; i < 100; ++i) {
    for (const char c : "n" + std::to_string(i) + "\n")
      names.push_back(static_cast<std::uint8_t>(c));
  }
  write_file(folder / "fine_label_names.txt", names);
  const CifarDataset data(files, CifarKind::cifar100);
  EXPECT_EQ(data.size(), 12);
  EXPECT_EQ(data.classes(), 100);
  EXPECT_EQ(data.label(11), 1);
  EXPECT_EQ(data.class_names()[57], "n57");
}

TEST(Cifar, RefusesBrokenFiles) {
  const TemporaryFolder folder;
  const auto open = [&](const Bytes& bytes) {
    CifarDataset({write_file(folder / "test_batch.bin", bytes)}, CifarKind::cifar10);
  };
  Bytes bytes = cifar_records(CifarKind::cifar10, 3, 0);
  bytes.pop_back();
  expect_input_error([&] { open(bytes); }, {"test_batch.bin", "3073", "9218"});
  expect_input_error([&] { open({}); }, {"test_batch.bin", "the file is empty"});
  bytes = cifar_records(CifarKind::cifar10, 3, 0);
  bytes[2 * 3073] = 10;
  expect_input_error([&] { open(bytes); }, {"test_batch.bin, sample 2", "label 10", "0 to 9"});
}

class Folder : public ::testing::Test {
 protected:
  void add(const std::string& name) { write_file(folder / name, jpeg); }

  TemporaryFolder folder;
  Bytes jpeg = write_jpeg(smooth(8, 12, 3), {});
};

TEST_F(Folder, SortsClassesAndFiles) {
  for (const char* name : {"dog/b.jpg", "dog/a.JPEG", "cat/z.jpeg", "cat/.hidden.jpg",
                           "cat/notes.txt", "ape/1.jpg", "readme.md"}) {
    add(name);
  }
  const FolderDataset data(folder.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"ape", "cat", "dog"}));
  ASSERT_EQ(data.size(), 4);
  EXPECT_EQ(data.describe(1), (folder / "cat/z.jpeg").string());
  EXPECT_EQ(data.describe(2), (folder / "dog/a.JPEG").string());
  EXPECT_EQ(data.label(0), 0);
  EXPECT_EQ(data.label(3), 2);
  EXPECT_EQ(data.load(3).width, 12);
  EXPECT_EQ(data.load(3).channels, 3);
  EXPECT_EQ(FolderDataset(folder.path(), 1).load(0).channels, 1);
}

TEST_F(Folder, RefusesEmptyClassesAndMissingRoots) {
  add("cat/a.jpg");
  std::filesystem::create_directories(folder / "empty");
  expect_input_error([&] { FolderDataset data(folder.path()); },
                     {(folder / "empty").string(), "class folder"});
  expect_input_error([&] { FolderDataset data(folder / "none"); }, {(folder / "none").string()});
  expect_input_error([&] { FolderDataset data(folder / "cat"); }, {"no class folders"});
}

TEST_F(Folder, PassesOverNothingThatIsNamedLikeAPhoto) {
  namespace fs = std::filesystem;
  add("cat/a.jpg");
  fs::create_symlink("gone.jpg", folder / "cat/b.jpg");
  fs::create_symlink("c.jpg", folder / "cat/c.jpg");
  fs::create_directories(folder / "cat/d.jpg");
  ASSERT_EQ(::mkfifo((folder / "cat/e.jpg").c_str(), 0600), 0);
  fs::create_symlink("a.jpg", folder / "cat/f.jpg");
  add("cat/notes.txt");
  const FolderDataset data(folder.path());
  ASSERT_EQ(data.size(), 6);
  EXPECT_EQ(data.load(0).width, 12);
  const auto expect_bad = [&](std::int64_t index, const std::string& reason) {
    const std::string message = data.describe(index) + ": " + reason;
    expect_input_error([&] { static_cast<void>(data.load(index)); }, {message});
    expect_input_error([&] { static_cast<void>(data.open(index)); }, {message});
  };
  expect_bad(1, "a link that cannot be followed (No such file");
  expect_bad(2, "a link that cannot be followed (Too many levels");
  expect_bad(3, "not a regular file");
  expect_bad(4, "not a regular file");
  EXPECT_EQ(data.load(5).width, 12);
}

TEST_F(Folder, FollowsLinksToClassFolders) {
  namespace fs = std::filesystem;
  add("cats/a.jpg");
  fs::create_directories(folder / "data");
  fs::create_symlink("../cats", folder / "data/cat");
  EXPECT_EQ(FolderDataset(folder / "data").size(), 1);
  fs::create_symlink("../dogs", folder / "data/dog");
  expect_input_error([&] { FolderDataset data(folder / "data"); },
                     {(folder / "data/dog").string() + ": cannot be followed (No such file"});
}

TEST_F(Folder, FollowsTheTrainingClasses) {
  add("cat/a.jpg");
  add("dog/a.jpg");
  const FolderDataset data(folder.path(), 3, {"ape", "cat", "dog"});
  EXPECT_EQ(data.classes(), 3);
  EXPECT_EQ(data.label(0), 1);
  EXPECT_EQ(data.describe(1), (folder / "dog/a.jpg").string());
  expect_input_error(
      [&] {
        FolderDataset other(folder.path(), 3, {"cat", "dogs"});
      },
      {"'dog'", "did you mean 'dogs'"});
}

TEST_F(Folder, NamesTheBrokenSample) {
  jpeg.resize(jpeg.size() / 2);
  add("cat/broken.jpg");
  const FolderDataset data(folder.path());
  expect_input_error([&] { static_cast<void>(data.load(0)); },
                     {(folder / "cat/broken.jpg").string() + ": "});
}

// Else it would be left out of a training that skips what is broken.
TEST_F(Folder, ASampleForWhichTheMachineHasNoFileLeftIsNotBroken) {
  add("cat/sound.jpg");
  const FolderDataset data(folder.path());
  const NoFileMore none;
  EXPECT_THROW(static_cast<void>(data.load(0)), SystemError);
}

TEST(Synthetic, DependsOnSeedSampleAndLabel) {
  const SyntheticDataset::Options options{.size = 40, .classes = 4, .seed = 7};
  const SyntheticDataset data(options);
  EXPECT_EQ(data.load(5).pixels, SyntheticDataset(options).load(5).pixels);
  EXPECT_NE(data.load(5).pixels, data.load(9).pixels);  // the same class
  SyntheticDataset::Options other = options;
  other.seed = 8;
  EXPECT_NE(data.load(5).pixels, SyntheticDataset(other).load(5).pixels);
  other = options;
  other.first = 30;  // sample 3 of this set is sample 33 of the other
  EXPECT_EQ(SyntheticDataset(other).load(3).pixels, data.load(33).pixels);
  EXPECT_EQ(SyntheticDataset(other).label(3), data.label(33));
}

/// Waves of an amplitude of 64 and noise below 64 around mid-gray; each row has noise of its own.
TEST(Synthetic, IsWavesAndNoise) {
  const SyntheticDataset data({.size = 50, .classes = 50, .height = 48, .width = 40});
  int least = 255;
  int most = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    for (const int value : data.load(i).pixels) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  EXPECT_GE(least, 96 - 65);
  EXPECT_LE(least, 96 - 55);
  EXPECT_GE(most, 96 + 63 + 55);
  EXPECT_LE(most, 96 + 63 + 65);

  // Two samples of a class differ by their noise alone, in each row by another.
  const std::vector<std::uint8_t> one = data.load(0).pixels;
  const std::vector<std::uint8_t> other =
      SyntheticDataset({.size = 1, .classes = 50, .height = 48, .width = 40, .first = 50})
          .load(0)
          .pixels;
  std::set<std::vector<int>> rows;
  for (std::size_t y = 0; y < 48; ++y) {
    std::vector<int> row;
    for (std::size_t i = y * 120; i < (y + 1) * 120; ++i) row.push_back(one[i] - other[i]);
    EXPECT_GT(std::ranges::count_if(row, [](int difference) { return difference != 0; }), 100);
    rows.insert(row);
  }
  EXPECT_EQ(rows.size(), 48U);
}

/// The nearest class mean of other samples tells the class: so a network can learn it.
TEST(Synthetic, IsLearnable) {
  const SyntheticDataset data(
      {.size = 120, .classes = 6, .height = 20, .width = 24, .channels = 1});
  const auto pixels = std::size_t{20 * 24};
  std::vector<std::vector<double>> means(6, std::vector<double>(pixels));
  for (std::int64_t i = 0; i < 60; ++i) {
    const Image image = data.load(i);
    ASSERT_EQ(image.pixels.size(), pixels);
    for (std::size_t p = 0; p < pixels; ++p) {
      means[static_cast<std::size_t>(data.label(i))][p] += image.pixels[p] / 10.0;
    }
  }
  int right = 0;
  for (std::int64_t i = 60; i < 120; ++i) {
    const Image image = data.load(i);
    std::size_t best = 0;
    double least = INFINITY;
    for (std::size_t k = 0; k < 6; ++k) {
      double distance = 0.0;
      for (std::size_t p = 0; p < pixels; ++p)
        distance += std::pow(image.pixels[p] - means[k][p], 2);
      if (distance < least) least = distance, best = k;
    }
    right += static_cast<std::int32_t>(best) == data.label(i) ? 1 : 0;
  }
  EXPECT_EQ(right, 60);
}

}  // namespace
}  // namespace tandem::testing
