#pragma once

#include <vector>

#include "device/any_context.h"
#include "tensor/tensor.h"

namespace tandem {

/// The elements of a tensor, where the host can read and write them: the tensor itself where the
/// context's memory is the host's, a copy elsewhere.
class HostTensor {
 public:
  /// Reads the tensor after whatever was enqueued in the context, which outlives this.
  HostTensor(AnyContext& context, const Tensor& tensor);

  const Tensor& tensor() const { return host_; }
  /// Brings what was written here to the tensor.
  void write_back();

 private:
  AnyContext* context_;
  Tensor tensor_;
  std::vector<std::byte> copy_;  // empty where the tensor is the host's
  Tensor host_;
};

}  // namespace tandem
