#include "layers/softmax_cross_entropy.h"

namespace tandem {

LossSums softmax_cross_entropy(AnyContext& context, const Tensor& logits, const Tensor& labels,
                               float smoothing, std::int64_t valid, const Tensor& gradient) {
  TANDEM_CHECK(logits.shape().rank() == 2 && labels.elements() == logits.shape()[0],
               "logits {} and labels {}", logits.shape().text(), labels.shape().text());
  TANDEM_CHECK(valid >= 0 && valid <= labels.elements(), "{} of {} samples", valid,
               labels.elements());
  TANDEM_CHECK(!gradient.defined() || gradient.shape() == logits.shape(), "gradient {} of {}",
               gradient.shape().text(), logits.shape().text());
  return std::visit(
      [&](auto& device) {
        return softmax_cross_entropy(device, logits, labels, smoothing, valid, gradient);
      },
      context);
}

}  // namespace tandem
