#pragma once

// The kernels of batch normalisation on a CUDA device. Included by sources only.

#include <cstddef>
#include <cstdint>

#include "layers/activation.h"
#include "layers/input_norm_cuda.h"
#include "layers/normalisation/batch_norm.h"
#include "layers/normalisation/persistent_tiles_cuda.h"
#include "layers/normalisation/resident_tiles.h"

namespace tandem {

/// Floats of each channel, in arrays that are 16-byte aligned, each group's behind the other's.
struct BatchNormTable {
  float* mean = nullptr;
  float* inverse_deviation = nullptr;
  float* scale = nullptr;  ///< weight * inverse_deviation
  float* shift = nullptr;  ///< bias - mean * scale
  int apart = 0;           ///< floats from one group to the next

  static std::size_t bytes(const BatchNormShape& shape);
  /// The arrays laid into 16-byte aligned memory.
  static BatchNormTable at(std::byte* memory, const BatchNormShape& shape);
};

/// What the maker of so many samples left to do to them, with its table.
InputNorm input_norm_of(const DeferredNorm& left, std::byte* table, std::int64_t channels,
                        std::int64_t samples);

/// What sums over rows need beside their operands.
struct BatchNormWork {
  /// As many bytes as the kernel wants, for those below batch_norm_partial_bytes(); 16-byte
  /// aligned.
  std::byte* partials = nullptr;
  /// The same of them, batch_norm_counters(); zero before and after each kernel.
  unsigned* counters = nullptr;
  /// Where not null: the sums of this rank, two doubles a channel, are put there and nothing is
  /// finished; batch_norm_finish_…() does, once they have become those of all ranks.
  double* rank_sums = nullptr;
};

std::size_t batch_norm_partial_bytes(const CudaContext& context, const BatchNormShape& shape,
                                     DType dtype);
std::size_t batch_norm_counters(const CudaContext& context, const BatchNormShape& shape,
                                DType dtype);

/// What becomes of the sums over x.
struct BatchNormStatistics {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* running_mean = nullptr;  ///< the first group's
  float* running_variance = nullptr;
  std::int64_t running_apart = 0;  ///< ForwardArgs::buffers_apart
  BatchNormTable table{};
  double rows = 0.0;  ///< of a group, of all ranks
  float epsilon = 0.0F;
  float momentum = 0.0F;
};

/// The table of x's channels, and the running statistics updated. Sums are of x minus its first
/// row, so that no mean is too far from zero for the variance.
void batch_norm_statistics(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                           const BatchNormStatistics& statistics, const BatchNormWork& work);
void batch_norm_finish_statistics(CudaContext& context, std::int64_t channels,
                                  const BatchNormStatistics& statistics, const double* rank_sums);
/// The table from the running statistics, which stay as they are.
void batch_norm_running_table(CudaContext& context, std::int64_t channels,
                              const BatchNormStatistics& statistics);

/// What is added to a normalised value: undefined for nothing. It may be left to be normalised,
/// without an activation, in groups as x.
struct BatchNormResidual {
  Tensor tensor{};
  InputNorm norm{};
};

/// y = activation(x * scale + shift (+ residual)); y may be x. `passes`, where not null, of a sum
/// of 16-bit elements, of channels in packs of eight, behind ReLU or ReLU6: a bit for each element
/// of y, those of eight in a byte from the lowest on, whether a gradient passes its activation.
/// That is a sixteenth of what backward would read of y. Tensors are then 16-byte aligned.
void batch_norm_apply(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                      const BatchNormTable& table, const BatchNormResidual& residual,
                      Activation activation, const Tensor& y, std::uint8_t* passes = nullptr);

/// The result, activation(x * scale + shift), joined with `other` as in ShuffleJoin: its channels
/// and the first ones of `other`, which has a multiple of them, in turn.
void batch_norm_join(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                     const BatchNormTable& table, Activation activation, const Tensor& other,
                     const Tensor& joined);

/// What becomes of the sums over the gradients.
struct BatchNormGradients {
  BatchNormTable table{};
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;
  /// Where there are several groups, whose gradients of the parameters are summed: room for those
  /// of each, (groups, 2, C). The last group that gets done sums them, in the groups' order.
  double* group_gradients = nullptr;
  /// dx = scale * dz + slope * x + offset, with dz the gradient behind the fused activation. Laid
  /// out as the table.
  float* slope = nullptr;
  float* offset = nullptr;
  double rows = 0.0;              ///< of a group, of all ranks
  bool fixed_statistics = false;  ///< mean and deviation did not come from x
};

/// Sums of dz and dz * (x - mean). The derivative of a fused activation is found from the
/// normalised x, and dz is not stored.
void batch_norm_sum_gradients(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                              const Tensor& output_gradient, Activation activation,
                              const BatchNormGradients& gradients, const BatchNormWork& work);
/// The same where a residual was added before the activation: its derivative is found from
/// `passes`, as batch_norm_apply() leaves it, or where that is null from the result y, and dz,
/// which is the residual's gradient, is stored. It may be output_gradient.
void batch_norm_sum_residual_gradients(CudaContext& context, const BatchNormShape& shape,
                                       const Tensor& x, const Tensor& y, const std::uint8_t* passes,
                                       const Tensor& output_gradient, Activation activation,
                                       const Tensor& residual_gradient,
                                       const BatchNormGradients& gradients,
                                       const BatchNormWork& work);
/// The same where the result was joined: dz, which is stored as `gradient`, is found from every
/// second channel of joined_gradient and the normalised x. The others are other_gradient, which may
/// be undefined; it becomes zero in channels that were left out.
void batch_norm_sum_joined_gradients(CudaContext& context, const BatchNormShape& shape,
                                     const Tensor& x, const Tensor& joined_gradient,
                                     Activation activation, const Tensor& other_gradient,
                                     const Tensor& gradient, const BatchNormGradients& gradients,
                                     const BatchNormWork& work);
void batch_norm_finish_gradients(CudaContext& context, std::int64_t channels,
                                 const BatchNormGradients& gradients, const double* rank_sums);
/// dx; it may be output_gradient. The activation's derivative is found from the normalised x.
void batch_norm_input_gradient(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                               const Tensor& output_gradient, Activation activation,
                               const BatchNormGradients& gradients, const Tensor& input_gradient);

/// How many clusters of the kernels below this device runs at once.
ResidentClusters batch_norm_clusters(const CudaContext& context);

/// batch_norm_statistics() and batch_norm_apply() or batch_norm_join() in one kernel, which reads x
/// once. Operands are 16-byte aligned.
struct BatchNormResidentForward {
  Tensor x;
  SecondInput use = SecondInput::none;
  Tensor second;
  Activation activation = Activation::none;
  Tensor y;  ///< may be x where nothing is joined
};
void batch_norm_resident_forward(CudaContext& context, const ResidentTiles& tiles,
                                 const BatchNormResidentForward& operands,
                                 const BatchNormStatistics& statistics);

struct BatchNormResidentBackward {
  Tensor x;
  Tensor y;  ///< the result; read behind a residual and an activation alone
  Tensor output_gradient;
  Activation activation = Activation::none;
  SecondInput use = SecondInput::none;
  /// Undefined where not wanted; may be output_gradient where nothing was joined.
  Tensor second_gradient;
  /// The same.
  Tensor input_gradient;
};

/// The sums over gradients and batch_norm_input_gradient() in one kernel, which reads everything
/// once. Operands are 16-byte aligned; slope and offset of `gradients` are not used. `counters`:
/// one a tile, zero before and after; they count finished groups.
void batch_norm_resident_backward(CudaContext& context, const ResidentTiles& tiles,
                                  const BatchNormResidentBackward& operands,
                                  const BatchNormGradients& gradients, unsigned* counters);

/// batch_norm_statistics() and batch_norm_apply() in one kernel, which reads again only what its
/// blocks could not keep. Operands are 16-byte aligned. `work`: partials() floats and counters() of
/// the tiles; no rank_sums.
void batch_norm_persistent_forward(CudaContext& context, const PersistentTiles& tiles,
                                   const Tensor& x, const Tensor& residual, Activation activation,
                                   const Tensor& y, std::uint8_t* passes,
                                   const BatchNormStatistics& statistics,
                                   const BatchNormWork& work);

}  // namespace tandem
