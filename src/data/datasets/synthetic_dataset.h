#pragma once

#include "data/datasets/dataset.h"

namespace tandem {

/// Images made from nothing, for trials and benchmarks: each class has its own plane waves (one a
/// channel, from (seed, class)), each sample its own noise (from (seed, sample)). A small network
/// learns it; no file is read. Sample i of the set has the number first + i in the endless sequence
/// of the seed, so that a test set which starts where the training set ends has the same classes
/// and no common sample.
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
  Options options_;
};

}  // namespace tandem
