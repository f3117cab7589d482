#include "tensor/convert.h"

#include <cstring>

#include "tensor/tensor_kernels.h"

namespace tandem {

void convert(CpuContext& /*context*/, const Tensor& from, const Tensor& to) {
  TANDEM_CHECK(from.dtype() == to.dtype(), "{} to {} on the CPU", name_of(from.dtype()),
               name_of(to.dtype()));
  std::memcpy(to.raw(), from.raw(), from.bytes());
}

void convert(AnyContext& context, const Tensor& from, const Tensor& to) {
  TANDEM_CHECK(from.elements() == to.elements(), "{} to {}", from.shape().text(),
               to.shape().text());
  if (from.elements() == 0) return;
  std::visit([&](auto& device) { convert(device, from, to); }, context);
}

}  // namespace tandem
