#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/data_loader.h"
#include "data/datasets/synthetic_dataset.h"

namespace tandem::testing {

/// Loaders of raw batches and of floats over the same synthetic images.
struct RawCase {
  std::string name;
  SyntheticDataset::Options data;
  TransformOptions transform;
  MixOptions mix{};
  int batch = 4;
  int world = 1;
  bool whole = true;  ///< whether the images come as they are
  /// How far the floats may lie from the bytes' levels: they were rounded to these or not.
  double levels = 0.0;
};

inline TransformOptions raw_options(int size, int channels) {
  TransformOptions options;
  options.size = size;
  options.channels = channels;
  options.mean = {0.48F, 0.45F, 0.4F};
  options.deviation = {0.23F, 0.5F, 0.27F};
  options.mean.resize(static_cast<std::size_t>(channels));
  options.deviation.resize(static_cast<std::size_t>(channels));
  return options;
}

inline std::vector<RawCase> raw_cases() {
  const auto images = [](int height, int width, int channels) {
    return SyntheticDataset::Options{
        .size = 50, .classes = 5, .height = height, .width = width, .channels = channels};
  };
  const auto augmented = [](int size, int channels, int padding) {
    TransformOptions options = raw_options(size, channels);
    options.train = options.flip = true;
    options.crop_padding = padding;
    options.random_erasing = 0.5;
    return options;
  };
  TransformOptions enlarged = augmented(20, 3, 2);
  TransformOptions rand_augmented = augmented(12, 3, 2);
  rand_augmented.rand_augment = {.ops = 2, .magnitude = 15};
  TransformOptions resized_crop = augmented(18, 3, -1);
  resized_crop.random_resized_crop = true;
  TransformOptions gray_resized_crop = augmented(18, 1, -1);
  gray_resized_crop.random_resized_crop = true;
  TransformOptions cut = augmented(24, 3, 0);
  cut.resize = 32;
  TransformOptions centred = raw_options(24, 3);
  centred.resize = 32;
  return {
      {"plain", images(32, 32, 3), raw_options(32, 3)},
      {"odd", images(7, 7, 1), raw_options(7, 1), {}, 5},
      {"augmented", images(32, 32, 3), augmented(32, 3, 4), {}, 6},
      {"augmented_gray", images(28, 28, 1), augmented(28, 1, 3), {}, 6},
      {"augmented_odd", images(13, 13, 3), augmented(13, 3, 5), {}, 7},
      {"beyond_the_image", images(5, 5, 3), augmented(5, 3, 9), {}, 7},
      {"cut_from_more", images(32, 45, 3), cut},
      {"centred", images(40, 32, 3), centred},
      {"gray_to_colour", images(16, 16, 1), augmented(16, 3, 2)},
      {"colour_to_gray", images(16, 16, 3), augmented(16, 1, 2)},
      {"mixup", images(32, 32, 3), augmented(32, 3, 4), {.mixup = 0.6}, 6},
      {"cutmix", images(32, 32, 3), augmented(32, 3, 4), {.cutmix = 1.0}, 6},
      {"either", images(13, 13, 1), augmented(13, 1, 2), {.mixup = 0.6, .cutmix = 1.0}, 3},
      {"mixed_on_ranks",
       images(32, 32, 3),
       augmented(32, 3, 4),
       {.mixup = 1.0, .cutmix = 1.0},
       2,
       3},
      {"mixed_with_itself", images(32, 32, 3), augmented(32, 3, 4), {.cutmix = 1.0}, 1},
      {"large", images(150, 150, 3), augmented(150, 3, 8), {.mixup = 0.6, .cutmix = 1.0}, 3},
      {"resized", images(12, 12, 3), enlarged, {}, 4, 1, false},
      {"rand_augmented", images(12, 12, 3), rand_augmented, {.cutmix = 1.0}, 4, 1, false},
      {"resized_crop", images(40, 30, 3), resized_crop, {.mixup = 0.6}, 4, 1, false, 0.501},
      {"resized_crop_gray", images(40, 30, 1), gray_resized_crop, {}, 4, 1, false},
  };
}

/// Both kinds of batches of a case, of its last rank.
class RawCaseLoaders {
 public:
  explicit RawCaseLoaders(const RawCase& made, const DataLoader::Options& also = {})
      : data_(made.data), transform_(made.transform) {
    DataLoader::Options options = also;
    options.batch = made.batch;
    options.workers = 2;
    options.seed = 11;
    options.mix = made.mix;
    options.raw = false;
    const auto source = [&] {
      return training_batches(DistributedSampler({.size = made.data.size,
                                                  .global_batch = made.batch * made.world,
                                                  .world = made.world,
                                                  .rank = made.world - 1,
                                                  .seed = 4}));
    };
    floats = std::make_unique<DataLoader>(data_, transform_, source(), options);
    options.raw = true;
    raw = std::make_unique<DataLoader>(data_, transform_, source(), options);
  }

  const Transform& transform() const { return transform_; }

 private:
  SyntheticDataset data_;
  Transform transform_;

 public:
  // The last, so that their threads end before what they read does.
  std::unique_ptr<DataLoader> floats;
  std::unique_ptr<DataLoader> raw;
};

/// How far a finished value may lie from the floats' one, in the units of the input.
inline double raw_tolerance(const RawCase& made) { return 4e-6 + made.levels / 255.0 / 0.23; }

}  // namespace tandem::testing
