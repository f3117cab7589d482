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

/// What a sample's target has beside the uniform part.
struct Label {
  std::int64_t major;  // of the larger share
  std::int64_t minor;  // of the rest; `major` again where there is none
  double major_share;
  double minor_share;
};

/// Of sample n; the shares add up to `certain`.
Label label_of(const Targets& targets, std::int64_t n, std::int64_t classes, double certain) {
  const auto read = [&](const Tensor& labels) {
    const std::int64_t label = labels.data<std::int32_t>()[n];
    TANDEM_CHECK(label >= 0 && label < classes, "label {} of {} classes", label, classes);
    return label;
  };
  const std::int64_t first = read(targets.labels);
  if (!targets.mixed()) return {first, first, certain, 0.0};
  const std::int64_t second = read(targets.second_labels);
  const auto weight = static_cast<double>(targets.weights.data<float>()[n]);
  TANDEM_CHECK(weight >= 0.0 && weight <= 1.0, "a label's weight of {}", weight);
  if (first == second) return {first, first, certain, 0.0};
  const double share = certain * weight;
  const double rest = certain * (1.0 - weight);
  return share >= rest ? Label{first, second, share, rest} : Label{second, first, rest, share};
}

/// A row of logits relative to the largest, however far from zero that is.
struct Softmax {
  const float* row;
  double largest;
  double total = 0.0;        // sum of exp(shifted)
  double shifted_sum = 0.0;  // sum of shifted

  Softmax(const float* logits, std::int64_t classes)
      : row(logits), largest(static_cast<double>(*std::max_element(logits, logits + classes))) {
    for (std::int64_t k = 0; k < classes; ++k) {
      total += std::exp(shifted(k));
      shifted_sum += shifted(k);
    }
  }
  double shifted(std::int64_t k) const { return static_cast<double>(row[k]) - largest; }
  double probability(std::int64_t k) const { return std::exp(shifted(k)) / total; }
};

}  // namespace

LossSums softmax_cross_entropy(CpuContext& /*context*/, const Tensor& logits,
                               const Targets& targets, float smoothing, std::int64_t valid,
                               const Tensor& gradient, std::byte* /*scratch*/) {
  const std::int64_t batch = logits.shape()[0];
  const std::int64_t classes = logits.shape()[1];
  const double uniform = static_cast<double>(smoothing) / static_cast<double>(classes);
  const double certain = 1.0 - static_cast<double>(smoothing);
  LossSums sums;
  for (std::int64_t n = 0; n < valid; ++n) {
    const float* row = logits.data<float>() + n * classes;
    const Label label = label_of(targets, n, classes, certain);
    const Softmax softmax(row, classes);
    double loss = std::log(softmax.total) - label.major_share * softmax.shifted(label.major);
    // A class that counts for nothing may be excluded by -inf; 0 * inf would be NaN.
    if (label.minor_share > 0.0) loss -= label.minor_share * softmax.shifted(label.minor);
    sums.loss += loss;
    if (smoothing > 0.0F) sums.loss -= uniform * softmax.shifted_sum;
    const std::int64_t rank = rank_of(row, classes, label.major);
    sums.top1 += rank < 1 ? 1 : 0;
    sums.top5 += rank < 5 ? 1 : 0;
    if (!gradient.defined()) continue;
    float* out = gradient.data<float>() + n * classes;
    const auto write = [&](std::int64_t k, double target) {
      out[k] = static_cast<float>((softmax.probability(k) - target) / static_cast<double>(batch));
    };
    for (std::int64_t k = 0; k < classes; ++k) {
      write(k, uniform + (k == label.major ? label.major_share : 0.0));
    }
    if (label.minor_share > 0.0) write(label.minor, uniform + label.minor_share);
  }
  if (gradient.defined()) {
    std::fill(gradient.data<float>() + valid * classes, gradient.data<float>() + batch * classes,
              0.0F);
  }
  sums.samples = valid;
  return sums;
}

void softmax_cross_entropy_into(CpuContext& context, const Tensor& logits, const Targets& targets,
                                float smoothing, std::int64_t valid, const Tensor& gradient,
                                const float* gradient_scale, const Tensor& sums,
                                std::byte* scratch) {
  const LossSums found =
      softmax_cross_entropy(context, logits, targets, smoothing, valid, gradient, scratch);
  if (gradient.defined() && gradient_scale != nullptr) {
    for (float& element : gradient.span<float>()) element *= *gradient_scale;
  }
  auto* out = sums.data<float>();
  out[0] = static_cast<float>(found.loss);
  out[1] = static_cast<float>(found.samples);
  out[2] = static_cast<float>(found.top1);
  out[3] = static_cast<float>(found.top5);
}

}  // namespace tandem
