#include "data/raw_batch.h"

#include <cmath>
#include <map>

#include "data/datasets/folder_dataset.h"
#include "data/jpeg_writer.h"
#include "data/raw_cases.h"
#include "data/support.h"
#include "data/troubled_dataset.h"

// Raw batches, finished by the definition in data/augment/sample_edit.h written out pixel by pixel,
// against what Transform and mix_into() make.

namespace tandem::testing {
namespace {

bool within(const PixelRect& box, int y, int x) {
  return y >= box.top && y < box.top + box.height && x >= box.left && x < box.left + box.width;
}

/// Pixel (y, x) of sample n of the output before it is mixed.
double finished_pixel(const RawBatchView& raw, const TransformOptions& options, std::int64_t n,
                      int y, int x, int c) {
  const SampleEdit& edit = raw.edits[n];
  if (within(edit.erased, y, x)) return 0.0;
  const Shape& shape = raw.pixels.shape();
  const std::int64_t row = edit.top + y;
  const std::int64_t column = edit.left + (edit.mirrored != 0 ? options.size - 1 - x : x);
  double level = 0.0;
  if (row >= 0 && row < shape[1] && column >= 0 && column < shape[2]) {
    const std::int64_t at = ((n * shape[1] + row) * shape[2] + column) * shape[3] + c;
    level = raw.pixels.data<std::uint8_t>()[at];
  }
  const auto i = static_cast<std::size_t>(c);
  return (level / 255.0 - double{options.mean[i]}) / double{options.deviation[i]};
}

std::vector<double> finished(const RawBatchView& raw, const TransformOptions& options) {
  std::vector<double> out;
  const std::int64_t batch = raw.labels.elements();
  for (std::int64_t n = 0; n < batch; ++n) {
    const std::int64_t partner = n > 0 ? n - 1 : batch;
    for (int y = 0; y < options.size; ++y) {
      for (int x = 0; x < options.size; ++x) {
        for (int c = 0; c < options.channels; ++c) {
          double value = finished_pixel(raw, options, n, y, x, c);
          if (raw.mix != nullptr) {
            const double other = finished_pixel(raw, options, partner, y, x, c);
            if (raw.mix->boxed != 0) {
              if (within(raw.mix->box, y, x)) value = other;
            } else {
              value = double{raw.mix->own} * value + double{raw.mix->partners} * other;
            }
          }
          out.push_back(value);
        }
      }
    }
  }
  return out;
}

template <typename T>
std::vector<T> copy_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto values = tensor.span<T>();
  return {values.begin(), values.end()};
}

void expect_same(const Batch& raw, const Batch& floats, const TransformOptions& options,
                 double tolerance) {
  EXPECT_FALSE(raw.images.defined());
  EXPECT_FALSE(floats.raw.pixels.defined());
  EXPECT_EQ(raw.valid, floats.valid);
  EXPECT_EQ(raw.indices, floats.indices);
  EXPECT_EQ(raw.bad.size(), floats.bad.size());
  EXPECT_EQ(copy_of<std::int32_t>(raw.labels), copy_of<std::int32_t>(floats.labels));
  EXPECT_EQ(copy_of<std::int32_t>(raw.second_labels), copy_of<std::int32_t>(floats.second_labels));
  EXPECT_EQ(copy_of<float>(raw.label_weights), copy_of<float>(floats.label_weights));
  EXPECT_EQ(raw.raw.labels.raw(), raw.labels.raw());
  const std::vector<double> found = finished(raw.raw, options);
  const auto wanted = floats.images.span<float>();
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], wanted[i], tolerance) << i;
  }
}

class RawBatches : public ::testing::TestWithParam<RawCase> {};

TEST_P(RawBatches, AreTheFloatsWhenFinished) {
  const RawCase& made = GetParam();
  RawCaseLoaders loaders(made);
  EXPECT_EQ(loaders.raw->raw_layout().format().whole, made.whole);
  EXPECT_EQ(loaders.raw->raw_layout().mixed(), made.mix.on());
  for (int step = 0; step < 8; ++step) {
    expect_same(*loaders.raw->next(), *loaders.floats->next(), made.transform, raw_tolerance(made));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, RawBatches, ::testing::ValuesIn(raw_cases()),
                         [](const auto& made) { return made.param.name; });

class RawFolder : public ::testing::Test {
 protected:
  RawFolder() {
    for (const auto& [name, height, width] : {std::tuple{"a/1.jpg", 61, 90},
                                              {"a/2.jpg", 90, 61},
                                              {"b/1.jpg", 33, 33},
                                              {"b/2.jpg", 250, 180}}) {
      write_file(folder / name, write_jpeg(pattern(height, width, 3), {}));
    }
  }
  void compare(const TransformOptions& options, double tolerance) const {
    const FolderDataset data(folder.path(), 3);
    const Transform transform(options);
    const auto source = [&] {
      return training_batches(
          DistributedSampler({.size = data.size(), .global_batch = 4, .seed = 4}));
    };
    DataLoader floats(data, transform, source(), {.batch = 4, .mix = {.cutmix = 1.0}});
    DataLoader raw(data, transform, source(), {.batch = 4, .mix = {.cutmix = 1.0}, .raw = true});
    EXPECT_EQ(raw.raw_layout().format(), (PixelFormat{options.size, options.size, 3, false}));
    for (int step = 0; step < 6; ++step) {
      expect_same(*raw.next(), *floats.next(), options, tolerance);
    }
  }

  TemporaryFolder folder;
};

TEST_F(RawFolder, ResizedCropsAreRoundedOnce) {
  TransformOptions options = raw_options(31, 3);
  options.train = options.flip = options.random_resized_crop = true;
  options.random_erasing = 0.3;
  compare(options, 0.501 / 255.0 / 0.23);
}

TEST_F(RawFolder, CentresAreTheSame) {
  TransformOptions options = raw_options(28, 3);
  options.resize = 32;
  compare(options, 4e-6);
}

TEST(RawLoader, ErasesWhatIsNotThere) {
  TroubledDataset data{50};
  data.broken_from = 45;
  TransformOptions options = augmented();
  options.train = false;
  const Transform transform(options);
  const auto loader = [&](bool raw) {
    return std::make_unique<DataLoader>(
        data, transform, evaluation_batches(EvaluationSampler({.size = 50, .batch = 24})),
        DataLoader::Options{
            .batch = 24, .workers = 2, .on_bad_sample = OnBadSample::drop, .raw = raw});
  };
  const auto raw = loader(true);
  const auto floats = loader(false);
  for (const int valid : {24, 21, 0}) {
    const Batch& batch = *raw->next();
    EXPECT_EQ(batch.valid, valid);
    expect_same(batch, *floats->next(), options, 4e-6);
    const std::vector<double> images = finished(batch.raw, options);
    for (std::size_t i = static_cast<std::size_t>(valid) * 64; i < images.size(); ++i) {
      ASSERT_EQ(images[i], 0.0);
    }
  }
  EXPECT_EQ(raw->next(), nullptr);
}

TEST(RawLoader, ReplacesTheSameSamples) {
  TroubledDataset data{50};
  data.broken_from = 25;
  const Transform transform(augmented());
  const auto loader = [&](bool raw) {
    return std::make_unique<DataLoader>(
        data, transform,
        training_batches(DistributedSampler({.size = 50, .global_batch = 12, .seed = 4})),
        DataLoader::Options{.batch = 12,
                            .workers = 2,
                            .on_bad_sample = OnBadSample::replace,
                            .mix = {.mixup = 0.4},
                            .raw = raw});
  };
  const auto raw = loader(true);
  const auto floats = loader(false);
  for (int step = 0; step < 6; ++step) {
    expect_same(*raw->next(), *floats->next(), transform.options(), 4e-6);
  }
}

TEST(RawLoader, HoldsBatchesInMemoryFromItsOwner) {
  const TroubledDataset data{50};
  const Transform transform(augmented());
  std::map<std::byte*, std::size_t> given;
  const HostAllocator allocate = [&](std::size_t bytes) {
    std::shared_ptr<std::byte> memory = allocate_host(bytes);
    given[memory.get()] = bytes;
    return memory;
  };
  DataLoader loader(
      data, transform,
      training_batches(DistributedSampler({.size = 50, .global_batch = 12, .seed = 4})),
      {.batch = 12, .workers = 3, .prefetch = 2, .raw = true, .allocate = allocate, .hold = 3});
  EXPECT_EQ(given.size(), 5U);
  std::vector<std::pair<const Batch*, std::vector<std::uint8_t>>> taken;
  for (std::size_t step = 0; step < 12; ++step) {
    const Batch& batch = *loader.next();
    const auto found = given.find(batch.raw.memory.data());
    ASSERT_NE(found, given.end());
    EXPECT_EQ(found->second, loader.raw_layout().bytes());
    EXPECT_EQ(batch.raw.memory.size(), loader.raw_layout().bytes());
    taken.emplace_back(&batch, copy_of<std::uint8_t>(batch.raw.pixels));
    for (std::size_t back = 0; back < 3 && back <= step; ++back) {
      const auto& [held, pixels] = taken[step - back];
      EXPECT_EQ(held->ordinal, static_cast<std::int64_t>(step - back));
      EXPECT_EQ(copy_of<std::uint8_t>(held->raw.pixels), pixels) << step << " " << back;
    }
  }
}

TEST(RawLoader, LayoutsKeepTheirPartsApart) {
  const RawBatchLayout layout({.height = 5, .width = 7, .channels = 3}, 3, true);
  const std::shared_ptr<std::byte> memory = allocate_host(layout.bytes());
  const RawBatchView view = layout.view(memory.get());
  EXPECT_EQ(view.pixels.shape(), Shape({4, 5, 7, 3}));
  const auto begin = [&](const void* part) {
    return static_cast<std::size_t>(static_cast<const std::byte*>(part) - memory.get());
  };
  std::map<std::size_t, std::size_t> ends{
      {begin(view.pixels.raw()), 4 * 5 * 7 * 3},
      {begin(view.edits), 4 * sizeof(SampleEdit)},
      {begin(view.mix), sizeof(MixEdit)},
      {begin(view.labels.raw()), 4 * sizeof(std::int32_t)},
      {begin(view.second_labels.raw()), view.second_labels.bytes()},
      {begin(view.label_weights.raw()), view.label_weights.bytes()}};
  ASSERT_EQ(ends.size(), 6U);
  std::size_t end = 0;
  for (const auto& [at, bytes] : ends) {
    EXPECT_GE(at, end);
    EXPECT_EQ(at % 256, 0U);
    end = at + bytes;
  }
  EXPECT_LE(end, layout.bytes());
  EXPECT_TRUE(layout.fits(view));
  // As many bytes, but not these.
  EXPECT_FALSE(RawBatchLayout({.height = 7, .width = 5, .channels = 3}, 3, true).fits(view));
  EXPECT_FALSE(RawBatchLayout({.height = 5, .width = 7, .channels = 3}, 3, false).fits(view));
  EXPECT_FALSE(RawBatchLayout({.height = 5, .width = 7, .channels = 3}, 4, true).fits(view));
}

TEST(RawTransform, RefusesImagesOfOtherExtents) {
  const Transform transform(raw_options(8, 1));
  const PixelFormat format = transform.pixel_format(ImageExtents{8, 8});
  EXPECT_TRUE(format.whole);
  RandomStream random(1);
  std::vector<std::uint8_t> pixels(64);
  DecodedImage other(pattern(8, 9, 1));
  EXPECT_THROW(transform.plan(other, random, format, pixels.data()), Error);
}

}  // namespace
}  // namespace tandem::testing
