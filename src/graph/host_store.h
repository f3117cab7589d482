#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/parameters.h"
#include "tensor/host_tensor.h"

namespace tandem {

/// A store's values and buffers where the host can read and write them, the store's own or copies,
/// and how they lie.
class HostStore {
 public:
  /// Reads the store after whatever was enqueued in its context. Of HostCopy::always nothing refers
  /// to it afterwards but write_back(); else it outlives this.
  explicit HostStore(const ParameterStore& store, HostCopy copy = HostCopy::where_needed);

  /// As of the store.
  std::span<const Parameter> parameters() const { return parameters_; }
  std::span<const Parameter> trained() const { return {parameters_.data(), trained_count_}; }
  std::span<const std::size_t> model_order() const { return model_order_; }
  std::span<const StateBuffer> buffers() const { return buffers_; }

  Tensor value(std::size_t parameter) const;
  Tensor buffer(std::size_t index) const;
  /// Brings what was written here to `store`, the one that was read, and renews its weights.
  void write_back(ParameterStore& store);

 private:
  std::vector<Parameter> parameters_;
  std::size_t trained_count_;
  std::vector<std::size_t> model_order_;
  std::vector<StateBuffer> buffers_;
  HostTensor all_values_;
  HostTensor all_buffers_;
};

}  // namespace tandem
