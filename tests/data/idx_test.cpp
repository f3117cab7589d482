#include "data/datasets/idx_dataset.h"
#include "data/support.h"

namespace tandem::testing {
namespace {

void append(Bytes& bytes, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
}

Bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& extents, const Bytes& values) {
  Bytes bytes;
  append(bytes, magic);
  for (const std::uint32_t extent : extents) append(bytes, extent);
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

Bytes counted(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return bytes;
}

class Idx : public ::testing::Test {
 protected:
  std::filesystem::path images(const Bytes& bytes) { return write_file(folder / "images", bytes); }
  std::filesystem::path labels(const Bytes& bytes) { return write_file(folder / "labels", bytes); }

  TemporaryFolder folder;
  Bytes values = counted(5 * 3 * 4);
  Bytes good_images = idx(0x803, {5, 3, 4}, values);
  Bytes good_labels = idx(0x801, {5}, {0, 2, 1, 2, 0});
};

TEST_F(Idx, ReadsPlainAndGzip) {
  for (const bool zip : {false, true}) {
    const IdxDataset data(images(zip ? gzipped(good_images) : good_images),
                          labels(zip ? gzipped(good_labels) : good_labels), 3);
    ASSERT_EQ(data.size(), 5);
    EXPECT_EQ(data.classes(), 3);
    EXPECT_EQ(data.channels(), 1);
    EXPECT_EQ(data.class_names(), (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_EQ(data.label(0), 0);
    EXPECT_EQ(data.label(3), 2);
    const Image image = data.load(3);
    EXPECT_EQ(image.height, 3);
    EXPECT_EQ(image.width, 4);
    EXPECT_EQ(image.channels, 1);
    EXPECT_EQ(image.pixels, Bytes(values.begin() + 36, values.begin() + 48));
    EXPECT_EQ(data.describe(3), (folder / "images").string() + ", sample 3");
    EXPECT_THROW(static_cast<void>(data.load(5)), Error);
  }
}

TEST_F(Idx, ReadsColourAndGzipOfSeveralMembers) {
  const Bytes colour = idx(0x804, {2, 2, 5, 3}, counted(60));
  const auto half = static_cast<std::ptrdiff_t>(colour.size() / 2);
  Bytes members = gzipped(Bytes(colour.begin(), colour.begin() + half));
  const Bytes second = gzipped(Bytes(colour.begin() + half, colour.end()));
  members.insert(members.end(), second.begin(), second.end());
  const IdxDataset data(images(members), labels(idx(0x801, {2}, {1, 0})), 2);
  EXPECT_EQ(data.channels(), 3);
  const Image image = data.load(1);
  EXPECT_EQ(image.pixels.front(), counted(60)[30]);
  EXPECT_EQ(image.pixels.back(), counted(60)[59]);
  const IdxImageShape shape = read_idx_image_shape(folder / "images");
  EXPECT_EQ(shape.count, 2);
  EXPECT_EQ(shape.height, 2);
  EXPECT_EQ(shape.width, 5);
  EXPECT_EQ(shape.channels, 3);
}

TEST_F(Idx, RefusesWrongMagicAndSwappedFiles) {
  const std::string file = (folder / "images").string();
  expect_input_error([&] { IdxDataset(images(good_labels), labels(good_labels), 3); },
                     {file, "images", "0x00000803", "0x00000801"});
  expect_input_error([&] { IdxDataset(images(good_images), labels(good_images), 3); },
                     {(folder / "labels").string(), "labels", "0x00000801", "0x00000803"});
  expect_input_error(
      [&] {
        IdxDataset(images({1, 2}), labels(good_labels), 3);
      },
      {file, "truncated"});
  expect_input_error([&] { IdxDataset(images({}), labels(good_labels), 3); }, {file, "truncated"});
  expect_input_error([&] { IdxDataset(folder / "none", labels(good_labels), 3); },
                     {(folder / "none").string(), "no such file"});
  expect_input_error([&] { IdxDataset(folder.path(), labels(good_labels), 3); },
                     {"not a regular file"});
}

TEST_F(Idx, RefusesTruncatedAndTrailingData) {
  const std::string file = (folder / "images").string();
  Bytes shorter = good_images;
  shorter.pop_back();
  expect_input_error([&] { IdxDataset(images(shorter), labels(good_labels), 3); },
                     {file, "truncated", "5x3x4", "59"});
  expect_input_error([&] { IdxDataset(images(gzipped(shorter)), labels(good_labels), 3); },
                     {file, "truncated", "5x3x4", "60", "59"});
  Bytes longer = good_images;
  longer.push_back(0);
  for (const Bytes& bytes : {longer, gzipped(longer)}) {
    expect_input_error([&] { IdxDataset(images(bytes), labels(good_labels), 3); },
                       {file, "more follow", "5x3x4"});
  }
}

TEST_F(Idx, RefusesDamagedGzip) {
  const std::string file = (folder / "images").string();
  const Bytes zipped = gzipped(good_images);
  for (std::size_t kept = 2; kept < zipped.size(); ++kept) {
    const Bytes cut(zipped.begin(), zipped.begin() + static_cast<std::ptrdiff_t>(kept));
    expect_input_error([&] { IdxDataset(images(cut), labels(good_labels), 3); },
                       {file, "truncated"});
  }
  Bytes wrong_sum = zipped;
  wrong_sum[zipped.size() - 8] ^= 1;
  expect_input_error([&] { IdxDataset(images(wrong_sum), labels(good_labels), 3); },
                     {file, "damaged gzip"});
  Bytes followed = zipped;
  followed.push_back('x');
  expect_input_error([&] { IdxDataset(images(followed), labels(good_labels), 3); },
                     {file, "bytes follow"});
}

TEST_F(Idx, RefusesHugeHeadersWithoutAllocating) {
  for (const bool zip : {false, true}) {
    const Bytes huge = idx(0x804, {0xffffffff, 0xffffffff, 0xffffffff, 3}, values);
    expect_input_error([&] { IdxDataset(images(zip ? gzipped(huge) : huge), labels({}), 3); },
                       {"4294967295"});
    const Bytes big = idx(0x803, {1'000'000'000, 1000, 1000}, values);
    expect_input_error([&] { IdxDataset(images(zip ? gzipped(big) : big), labels({}), 3); },
                       {"truncated", "1000000000x1000x1000"});
  }
  expect_input_error(
      [&] {
        IdxDataset(images(idx(0x803, {5, 0, 4}, {})), labels({}), 3);
      },
      {"no data"});
  expect_input_error(
      [&] {
        IdxDataset(images(idx(0x804, {1, 2, 2, 2}, counted(8))), labels({}), 3);
      },
      {"2 channels"});
}

TEST_F(Idx, ChecksLabels) {
  expect_input_error([&] { IdxDataset(images(good_images), labels(good_labels), 2); },
                     {(folder / "labels").string() + ", sample 1", "label 2", "0 to 1"});
  expect_input_error(
      [&] {
        IdxDataset(images(good_images), labels(idx(0x801, {4}, {0, 0, 0, 0})), 3);
      },
      {"4 labels", "5 images"});
}

}  // namespace
}  // namespace tandem::testing
