#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/data_config.h"
#include "data/data_loader.h"

namespace tandem {

/// Least, middle and largest of some extents, pixels.
struct ExtentRange {
  int least = 0;
  int median = 0;
  int most = 0;
};

/// What one part of a data set holds.
struct PartReport {
  std::int64_t samples = 0;
  std::vector<std::int64_t> per_class;  ///< samples of each class, readable or not
  int least_label = 0;
  int most_label = 0;
  ExtentRange height;  ///< of the readable images, upright
  ExtentRange width;
  std::vector<BadSample> unreadable;
};

/// Samples whose pixels are the same, as Dataset::describe() names them.
struct Duplicates {
  std::vector<std::string> train;
  std::vector<std::string> test;
  bool labels_differ = false;
};

/// A data set to be looked at.
struct DataToVerify {
  Datasets sets;
  /// Paths of class folders without an image, with which open_datasets() would end.
  std::vector<std::string> empty_classes;
};
/// As open_datasets(), but for empty classes.
DataToVerify open_to_verify(const DataConfig& config);

struct DataReport {
  std::vector<std::string> class_names;
  PartReport train;
  PartReport test;
  std::vector<Duplicates> duplicates;  ///< in the order of their first samples

  std::int64_t unreadable() const {
    return static_cast<std::int64_t>(train.unreadable.size() + test.unreadable.size());
  }
  /// Groups with members in both parts: an evaluation would see what was trained on.
  std::int64_t across_parts() const;
};

/// Decodes every image of both parts with `threads` threads (>= 1). `progress(done, total)` is
/// called from the calling thread now and then. Duplicates are told by a 64-bit hash of extents and
/// pixels.
DataReport verify_datasets(const Datasets& datasets, int threads,
                           const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace tandem
