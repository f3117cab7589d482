#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/raw_batch.h"
#include "tensor/tensor.h"

namespace tandem {

/// A sample that could not be read, and why, in one line that names it.
struct BadSample {
  std::int64_t index = 0;
  std::string reason;
};

/// A batch in host memory, which belongs to its loader.
struct Batch {
  /// f32, (B, height, width, channels); zeros beyond `valid`. Undefined in a raw batch.
  Tensor images;
  /// Of a raw batch, in place of `images`. Beyond `valid` everything is erased, so that the input
  /// made of it is zero there too.
  RawBatchView raw;
  Tensor labels;                      ///< i32, (B); zeros beyond `valid`
  Tensor second_labels;               ///< i32, (B): the partners', where samples are mixed
  Tensor label_weights;               ///< f32, (B): of `labels`, 0..1; likewise
  int valid = 0;                      ///< samples in it, 0..B
  std::vector<std::int64_t> indices;  ///< the samples asked for, without those dropped
  std::vector<BadSample> bad;         ///< samples that were replaced or dropped
  std::int64_t epoch = 0;
  std::int64_t ordinal = 0;
};

}  // namespace tandem
