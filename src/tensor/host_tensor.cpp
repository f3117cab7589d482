#include "tensor/host_tensor.h"

#include "device/memory.h"

namespace tandem {

HostTensor::HostTensor(AnyContext& context, const Tensor& tensor)
    : context_(&context), tensor_(tensor), host_(tensor) {
  if (is_host(context) || !tensor.defined()) return;
  copy_.resize(tensor.bytes());
  copy_to_host(context, tensor.raw(), tensor.bytes(), copy_.data());
  host_ = Tensor(copy_.data(), tensor.shape(), tensor.dtype());
}

void HostTensor::write_back() {
  if (!copy_.empty()) copy_to_device(*context_, copy_.data(), copy_.size(), tensor_.raw());
}

}  // namespace tandem
