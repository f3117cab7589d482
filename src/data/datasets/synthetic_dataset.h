#pragma once

#include "data/datasets/dataset.h"

namespace tandem {

/// Images made from nothing, for trials and benchmarks: each class has its own plane waves (one a
/// channel, with the same cycles from top to bottom; from (seed, class)), each sample its own noise
/// (from (seed, sample)). A small network learns it; no file is read. Sample i of the set has the
/// number first + i in the endless sequence of the seed, so that a test set which starts where the
/// training set ends has the same classes and no common sample.
///
/// Made about as fast as an image in memory is read, so that a benchmark shows what lies behind it:
/// a class's waves are kept as products of ramps once an image of it was asked for, 4 bytes for
/// each of height + width * channels, and each row takes its noise from a random place in one
/// table.
class SyntheticDataset final : public Dataset {
 public:
  struct Options {
    std::int64_t size = 0;
    int classes = 10;
    int height = 32;
    int width = 32;
    int channels = 3;  ///< 1 or 3
    std::uint64_t seed = 0;
    std::int64_t first = 0;
  };
  /// Throws Error where the options describe no images.
  explicit SyntheticDataset(const Options& options);
  ~SyntheticDataset() override;

  std::int64_t size() const override { return options_.size; }
  int classes() const override { return options_.classes; }
  int channels() const override { return options_.channels; }
  std::optional<ImageExtents> extents() const override {
    return ImageExtents{options_.height, options_.width};
  }
  std::int32_t label(std::int64_t index) const override;
  Image load(std::int64_t index) const override;
  std::string describe(std::int64_t index) const override;
  std::vector<std::string> class_names() const override {
    return numbered_classes(options_.classes);
  }

 private:
  struct Waves;
  const Waves& waves(std::int32_t label) const;

  Options options_;
  std::vector<std::uint8_t> noise_;   ///< values below 64; a row may begin at each of noise_starts
  mutable std::vector<Waves> waves_;  ///< by class; drawn when one is first asked for
};

}  // namespace tandem
