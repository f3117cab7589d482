#include "layers/softmax_cross_entropy.h"

namespace tandem {

LossSums softmax_cross_entropy(AnyContext& context, const Tensor& logits, const Targets& targets,
                               float smoothing, std::int64_t valid, const Tensor& gradient) {
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
  return std::visit(
      [&](auto& device) {
        return softmax_cross_entropy(device, logits, targets, smoothing, valid, gradient);
      },
      context);
}

}  // namespace tandem
