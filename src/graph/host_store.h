#pragma once

#include "graph/parameters.h"
#include "tensor/host_tensor.h"

namespace tandem {

/// A store's values and buffers where the host can read and write them: the store's own, or copies.
class HostStore {
 public:
  /// Reads the store after whatever was enqueued in its context; it outlives this.
  explicit HostStore(const ParameterStore& store, HostCopy copy = HostCopy::where_needed);

  const ParameterStore& store() const { return *store_; }
  Tensor value(std::size_t parameter) const;
  Tensor buffer(std::size_t index) const;
  /// Brings what was written here to `store`, the one that was read, and renews its weights.
  void write_back(ParameterStore& store);

 private:
  const ParameterStore* store_;
  HostTensor values_;
  HostTensor buffers_;
};

}  // namespace tandem
