#include <algorithm>
#include <cmath>

#include "layers/softmax_cross_entropy.h"

namespace tandem {
namespace {

/// Position of the label among the logits from the largest on; past the end where a NaN hides it.
std::int64_t rank_of(const float* logits, std::int64_t classes, std::int64_t label) {
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
    double total = 0.0;
    double logit_sum = 0.0;
    for (std::int64_t k = 0; k < classes; ++k) {
      total += std::exp(static_cast<double>(row[k]) - largest);
      logit_sum += static_cast<double>(row[k]);
    }
    const double log_total = largest + std::log(total);
    sums.loss += log_total - certain * static_cast<double>(row[label]) - uniform * logit_sum;
    const std::int64_t rank = rank_of(row, classes, label);
    sums.top1 += rank < 1 ? 1 : 0;
    sums.top5 += rank < 5 ? 1 : 0;
    if (!gradient.defined()) continue;
    float* out = gradient.data<float>() + n * classes;
    for (std::int64_t k = 0; k < classes; ++k) {
      const double target = uniform + (k == label ? certain : 0.0);
      const double p = std::exp(static_cast<double>(row[k]) - log_total);
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
