#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/any_context.h"
#include "tensor/tensor.h"

namespace tandem {

enum class HostCopy : std::uint8_t {
  where_needed,  ///< where the context's memory is not the host's
  always,        ///< so that the tensor may change meanwhile
};

/// The elements of a tensor, where the host can read and write them: the tensor itself, or a copy.
class HostTensor {
 public:
  /// Reads the tensor after whatever was enqueued in the context, which outlives this.
  HostTensor(AnyContext& context, const Tensor& tensor, HostCopy copy = HostCopy::where_needed);

  const Tensor& tensor() const { return host_; }
  /// Brings what was written here to the tensor.
  void write_back();

 private:
  AnyContext* context_;
  Tensor tensor_;
  std::unique_ptr<std::byte[]> copy_;  // null where it is the tensor itself
  Tensor host_;
};

}  // namespace tandem
