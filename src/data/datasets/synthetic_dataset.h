#pragma once

#include "data/datasets/dataset.h"

namespace tandem {

/// Images made from nothing, for trials and benchmarks: each class has its own plane waves (one a
/// channel, from (seed, class)), each sample its own noise (from (seed, sample)). A small network
/// learns it; no file is read. Sample i of the set has the number first + i in the endless sequence
/// of the seed, so that a test set which starts where the training set ends has the same classes
/// and no common sample.
///
/// Made about as fast as an image in memory is read, so that a benchmark shows what lies behind it:
/// the waves are kept as products of ramps, 4 bytes a class for each of height + width * channels,
/// and the noise is taken in rows from one table.
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
  /// A class's waves, whose value is cos(down) * cos(across) - sin(down) * sin(across), in 16-bit
  /// fixed point, which takes a third of the time of floats.
  struct Waves {
    std::vector<std::int16_t> down_cosine;  ///< by row
    std::vector<std::int16_t> down_sine;
    std::vector<std::int16_t>
        across_cosine;  ///< by column, channels interleaved; with the amplitude
    std::vector<std::int16_t> across_sine;
  };
  Waves draw_waves(std::int32_t label) const;

  Options options_;
  std::vector<Waves> waves_;         ///< by class
  std::vector<std::uint8_t> noise_;  ///< values below 64; a row may begin at each of noise_starts
};

}  // namespace tandem
