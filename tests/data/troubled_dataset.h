#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "data/augment/transform.h"
#include "data/datasets/synthetic_dataset.h"

namespace tandem::testing {

/// Synthetic images, gray and 8 x 8, with samples that fail or take long.
class TroubledDataset final : public Dataset {
 public:
  explicit TroubledDataset(std::int64_t size)
      : inner_({.size = size, .classes = 5, .height = 8, .width = 8, .channels = 1}) {}

  std::int64_t size() const override { return inner_.size(); }
  int classes() const override { return inner_.classes(); }
  int channels() const override { return inner_.channels(); }
  std::int32_t label(std::int64_t index) const override { return inner_.label(index); }
  std::string describe(std::int64_t index) const override { return inner_.describe(index); }
  std::vector<std::string> class_names() const override { return inner_.class_names(); }
  Image load(std::int64_t index) const override {
    ++loads;
    std::this_thread::sleep_for(
        std::chrono::milliseconds(index == slow ? slow_ms : delay_ms.load()));
    if (index >= broken_from) input_error("sample {} is broken", index);
    return inner_.load(index);
  }

  std::int64_t broken_from = INT64_MAX;
  std::atomic<int> delay_ms{0};
  std::int64_t slow = -1;  ///< the sample that takes slow_ms
  int slow_ms = 5000;
  mutable std::atomic<int> loads{0};

 private:
  SyntheticDataset inner_;
};

/// Its training pictures: cropped and mirrored at random.
inline TransformOptions augmented() {
  TransformOptions options;
  options.size = 8;
  options.channels = 1;
  options.mean = {0.5F};
  options.deviation = {0.5F};
  options.train = options.flip = true;
  options.crop_padding = 2;
  return options;
}

}  // namespace tandem::testing
