#include "tensor/host_tensor.h"

#include "device/memory.h"

namespace tandem {

HostTensor::HostTensor(AnyContext& context, const Tensor& tensor, HostCopy copy)
    : context_(&context), tensor_(tensor), host_(tensor) {
  if (!tensor.defined() || (is_host(context) && copy == HostCopy::where_needed)) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(tensor.bytes());
  copy_to_host(context, tensor.raw(), tensor.bytes(), copy_.get());
  host_ = Tensor(copy_.get(), tensor.shape(), tensor.dtype());
}

void HostTensor::write_back() {
  if (copy_) copy_to_device(*context_, copy_.get(), tensor_.bytes(), tensor_.raw());
}

}  // namespace tandem
