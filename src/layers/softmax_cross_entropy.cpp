#include "layers/softmax_cross_entropy.h"

namespace tandem {
namespace {

void check(const Tensor& logits, const Targets& targets, std::int64_t valid,
           const Tensor& gradient) {
  const std::int64_t count = targets.labels.elements();
  TANDEM_CHECK(logits.shape().rank() == 2 && count == logits.shape()[0], "logits {} and labels {}",
               logits.shape().text(), targets.labels.shape().text());
  TANDEM_CHECK(targets.mixed() == targets.weights.defined() &&
                   (!targets.mixed() || (targets.second_labels.elements() == count &&
                                         targets.weights.elements() == count)),
               "labels {}, second labels {} and weights {}", targets.labels.shape().text(),
               targets.second_labels.shape().text(), targets.weights.shape().text());
  TANDEM_CHECK(valid >= 0 && valid <= count, "{} of {} samples", valid, count);
  TANDEM_CHECK(!gradient.defined() || gradient.shape() == logits.shape(), "gradient {} of {}",
               gradient.shape().text(), logits.shape().text());
}

}  // namespace

LossSums softmax_cross_entropy(AnyContext& context, const Tensor& logits, const Targets& targets,
                               float smoothing, std::int64_t valid, const Tensor& gradient,
                               std::byte* scratch) {
  check(logits, targets, valid, gradient);
  return std::visit(
      [&](auto& device) {
        return softmax_cross_entropy(device, logits, targets, smoothing, valid, gradient, scratch);
      },
      context);
}

void softmax_cross_entropy_into(AnyContext& context, const Tensor& logits, const Targets& targets,
                                float smoothing, std::int64_t valid, const Tensor& gradient,
                                const float* gradient_scale, const Tensor& sums,
                                std::byte* scratch) {
  check(logits, targets, valid, gradient);
  std::visit(
      [&](auto& device) {
        softmax_cross_entropy_into(device, logits, targets, smoothing, valid, gradient,
                                   gradient_scale, sums, scratch);
      },
      context);
}

}  // namespace tandem
