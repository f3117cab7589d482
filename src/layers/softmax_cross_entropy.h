#pragma once

#include <cstdint>

#include "device/any_context.h"
#include "tensor/tensor.h"

namespace tandem {

/// Sums over the samples of a batch that count.
struct LossSums {
  double loss = 0.0;
  std::int64_t samples = 0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;

  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    samples += other.samples;
    top1 += other.top1;
    top5 += other.top5;
    return *this;
  }
};

/// Softmax cross-entropy against smoothed labels (Szegedy et al. 2016):
/// loss = -sum over k of q_k log softmax(logits)_k, q = (1 - smoothing) one_hot + smoothing / K.
/// Returns the sum over the first `valid` samples, and how many have their label among the one and
/// five largest logits (equal logits are ranked by index; a NaN logit counts as a miss).
///
/// logits f32 (N, K); labels i32 (N), each in [0, K); gradient f32 (N, K), or undefined where none
/// is wanted: d(mean over the N samples)/d(logits). Throws Error for a label out of range.
LossSums softmax_cross_entropy(AnyContext& context, const Tensor& logits, const Tensor& labels,
                               float smoothing, std::int64_t valid, const Tensor& gradient);

LossSums softmax_cross_entropy(CpuContext& context, const Tensor& logits, const Tensor& labels,
                               float smoothing, std::int64_t valid, const Tensor& gradient);

}  // namespace tandem
