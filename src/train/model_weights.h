#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "graph/parameters.h"
#include "train/safetensors.h"

namespace tandem {

/// How the names of an optimizer's state begin in a checkpoint.
inline constexpr std::string_view optimizer_prefix = "optimizer.";

/// A model's parameters and running statistics under torchvision's names and in its layouts
/// (convolution weights K, C, R, S), ready for write_safetensors(). Convolution weights are copies,
/// everything else views the store, which must outlive this.
class WeightsExport {
 public:
  /// `batches` becomes every normalisation's num_batches_tracked.
  WeightsExport(const ParameterStore& store, std::int64_t batches);
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  std::vector<NamedTensor> tensors_;
  std::deque<std::vector<float>> copies_;
  std::int64_t batches_;
};

/// Fills the store's parameters and buffers from a file with torchvision's names and layouts; f16
/// and bf16 become f32. Tensors whose names begin with "optimizer." are left alone. Throws
/// InputError listing the first mismatches where a tensor is missing, unknown or of another shape.
/// Returns num_batches_tracked, 0 where the file has none.
std::int64_t load_weights(const SafetensorsFile& file, ParameterStore& store);

}  // namespace tandem
