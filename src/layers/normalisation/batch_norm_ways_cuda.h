#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layers/normalisation/batch_norm.h"
#include "layers/normalisation/persistent_tiles_cuda.h"
#include "layers/normalisation/pointwise_statistics_cuda.h"
#include "layers/normalisation/resident_tiles.h"

// By which kernels a tensor may be normalised. Included by sources only.

namespace tandem {

/// How often kernels read the tensor that they normalise forward.
enum class NormForward : std::uint8_t {
  two_kernels,  ///< twice: statistics, then result
  persistent,   ///< once, and again what shared memory does not keep (PersistentTiles)
  resident,     ///< once: registers keep it (ResidentTiles)
};

/// Forward and backward, in training.
struct BatchNormWay {
  NormForward forward = NormForward::two_kernels;
  bool resident_backward = false;  ///< one kernel; else two

  bool operator==(const BatchNormWay&) const = default;
};

/// As choices keep it.
std::string name_of(const BatchNormWay& way);

/// What is normalised, and what becomes of the result.
struct BatchNormSetup {
  BatchNormShape shape;
  BatchNormOptions options;
  DType dtype = DType::f32;
  bool training = false;
  bool fixed_statistics = false;  ///< in training: the running ones
  RankSum* ranks = nullptr;       ///< as KernelRequest::rank_sum
  bool defers = false;            ///< the result is left to its reader
  SecondInput use = SecondInput::none;
  bool second_is_left = false;  ///< the residual is left to be normalised
  Activation activation = Activation::none;
  /// Where empty: by size.
  std::optional<BatchNormWay> way{};
  /// Where not empty, x is the result of this kernel, which makes its statistics too.
  std::optional<PointwiseTiles> product{};

  /// Whether statistics are those of a batch.
  bool has_batch_statistics() const { return training && !fixed_statistics; }
};

/// Where registers hold the tensor; its statistics are then the batch's, of this rank alone.
std::optional<ResidentTiles> resident_tiles_of(const CudaContext& context,
                                               const BatchNormSetup& setup);
/// The same, where shared memory keeps at least this share of it.
std::optional<PersistentTiles> persistent_tiles_of(const CudaContext& context,
                                                   const BatchNormSetup& setup, double least_kept);

/// All ways that there are on this device, the one by size first: one kernel in both directions
/// where registers hold the tensor; else, forward, where shared memory keeps two fifths of it.
/// Measured so in the steps of models on an H200.
std::vector<BatchNormWay> batch_norm_ways(const CudaContext& context, const BatchNormSetup& setup);

}  // namespace tandem
