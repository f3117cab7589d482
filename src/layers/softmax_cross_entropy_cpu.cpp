#include <algorithm>
#include <cmath>
#include <limits>

#include "layers/softmax_cross_entropy.h"

namespace tandem {
namespace {

/// Position of the label among the logits from the largest on; a NaN label's is past any.
std::int64_t rank_of(const float* logits, std::int64_t classes, std::int64_t label) {
  if (std::isnan(logits[label])) return std::numeric_limits<std::int64_t>::max();
  std::int64_t ahead = 0;
  for (std::int64_t k = 0; k < classes; ++k) {
    const bool behind = logits[k] < logits[label] || (logits[k] == logits[label] && k >= label);
    ahead += behind ? 0 : 1;
  }
  return ahead;
}

}  // namespace

LossSums softmax_cross_entropy(CpuContext& /*context*/, const Tensor& logits, const Tensor& labels,
                               float smoothing, std::int64_t valid, const Tensor& gradient) {
  const std::int64_t batch = logits.shape()[0];
  const std::int64_t classes = logits.shape()[1];
  const auto* targets = labels.data<std::int32_t>();
  const double uniform = static_cast<double>(smoothing) / static_cast<double>(classes);
  const double certain = 1.0 - static_cast<double>(smoothing);
  LossSums sums;
  for (std::int64_t n = 0; n < valid; ++n) {
    const float* row = logits.data<float>() + n * classes;
    const std::int64_t label = targets[n];
    TANDEM_CHECK(label >= 0 && label < classes, "label {} of {} classes", label, classes);
    const auto largest = static_cast<double>(*std::max_element(row, row + classes));
    // Everything is taken relative to the largest logit, however far from zero that is.
    double total = 0.0;
    double shifted_sum = 0.0;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double shifted = static_cast<double>(row[k]) - largest;
      total += std::exp(shifted);
      shifted_sum += shifted;
    }
    sums.loss += std::log(total) - certain * (static_cast<double>(row[label]) - largest);
    // Without smoothing a class that -inf excludes counts for nothing; 0 * inf would be NaN.
    if (smoothing > 0.0F) sums.loss -= uniform * shifted_sum;
    const std::int64_t rank = rank_of(row, classes, label);
    sums.top1 += rank < 1 ? 1 : 0;
    sums.top5 += rank < 5 ? 1 : 0;
    if (!gradient.defined()) continue;
    float* out = gradient.data<float>() + n * classes;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double target = uniform + (k == label ? certain : 0.0);
      const double p = std::exp(static_cast<double>(row[k]) - largest) / total;
      out[k] = static_cast<float>((p - target) / static_cast<double>(batch));
    }
  }
  if (gradient.defined()) {
    std::fill(gradient.data<float>() + valid * classes, gradient.data<float>() + batch * classes,
              0.0F);
  }
  sums.samples = valid;
  return sums;
}

}  // namespace tandem
