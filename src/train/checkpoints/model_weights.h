#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/host_store.h"
#include "graph/parameters.h"
#include "graph/reserved_names.h"
#include "train/checkpoints/safetensors.h"

namespace tandem {

/// A model's parameters and running statistics under torchvision's names and in its layouts
/// (convolution weights K, C, R, S), ready for write_safetensors(). Convolution weights are copies,
/// everything else may view the store, which must outlive this.
class WeightsExport {
 public:
  /// `batches` becomes every normalisation's num_batches_tracked.
  WeightsExport(const ParameterStore& store, std::int64_t batches);
  WeightsExport(const HostStore& host, std::int64_t batches);
  /// The weights' moving average as it lies in a checkpoint, beside the trained weights: its names
  /// begin with "ema.".
  static WeightsExport average(const HostStore& host);
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  WeightsExport() = default;
  void add(const HostStore& host, const std::string& prefix);

  std::optional<HostStore> own_;
  std::vector<NamedTensor> tensors_;
  std::deque<std::vector<float>> copies_;
  std::int64_t batches_ = 0;
};

/// Which of a checkpoint's weights are meant.
enum class WhichWeights {
  averaged,  ///< the moving average where the file has one, else the trained ones
  trained,
};

bool has_average(const SafetensorsFile& file);

struct LoadOptions {
  WhichWeights which = WhichWeights::averaged;
  /// Parts that keep what they have; what the file says of them is ignored.
  NamePrefixes skip{};
  /// What to do about a mismatch.
  std::string advice = "give weights of the same model, classes and input channels";
};

/// Fills the store's parameters and buffers from a file with torchvision's names and layouts; f16
/// and bf16 become f32. Tensors whose names begin with "optimizer." are left alone. Throws
/// InputError listing the first mismatches where a tensor is missing, unknown or of another shape,
/// or naming one that holds what is not finite.
/// Returns num_batches_tracked, 0 where the file has none.
std::int64_t load_weights(const SafetensorsFile& file, ParameterStore& store,
                          const LoadOptions& options = {});

/// A checkpoint's weights under torchvision's names, views of the file: what an export holds.
std::vector<NamedTensor> weights_of(const SafetensorsFile& file, WhichWeights which);

}  // namespace tandem
