#pragma once

#include "base/config_table.h"
#include "layers/activation.h"
#include "layers/layer.h"

namespace tandem {

struct BatchNormOptions {
  float epsilon = 1e-5F;
  float momentum = 0.1F;
};

/// NHWC as rows of channels, the groups one behind the other.
struct BatchNormShape {
  std::int64_t rows = 0;      ///< of a group: N * H * W / groups
  std::int64_t channels = 0;  ///< C
  std::int64_t groups = 1;    ///< each with statistics of its own

  /// Of a group.
  std::int64_t elements() const { return rows * channels; }
};

/// What becomes of a second tensor in a fused kernel: it is added before the activation, or joined
/// with the result behind it, as ShuffleJoin joins its first input with its second.
enum class SecondInput : std::uint8_t { none, residual, joined };

/// Whether a bit an element tells backward where the gradient passes the activation of a sum of
/// `channels`, in place of the result: of 16-bit elements, whose packs of eight have a byte. Saved
/// by kernels on a GPU, but by those that hold the tensor in registers, or where such ones go
/// backward.
constexpr bool passes_are_bits(Activation activation, std::size_t element_bytes,
                               std::int64_t channels) {
  return passes_or_stops(activation) && element_bytes == 2 && channels % 8 == 0;
}

/// Whether the statistics are those of the batch on this rank alone: in training, neither fixed nor
/// summed over ranks.
bool has_statistics_of_rank(const KernelRequest& request);

/// The shape of what the request normalises: in several groups where the batch's statistics are
/// taken over the samples of each of several ranks (KernelRequest::batch_groups), else in one.
BatchNormShape batch_norm_shape(const KernelRequest& request);

/// Reads `epsilon` (1e-5) and `momentum` (0.1).
BatchNormOptions read_batch_norm_options(const ConfigTable& table);

/// weight and bias (C), starting at one and zero; running_mean and running_var (C).
std::vector<ParameterSpec> batch_norm_parameters(std::int64_t channels);
std::vector<BufferSpec> batch_norm_buffers(std::int64_t channels);

/// Batch normalisation over all but the last extent (Ioffe and Szegedy 2015):
/// y = weight (x - mean) / sqrt(var + epsilon) + bias, in training with the batch's mean and biased
/// variance, in evaluation with the running ones. running = (1 - momentum) running + momentum
/// batch, the batch's variance unbiased there, as in torch.nn.BatchNorm2d.
class BatchNorm : public Layer {
 public:
  explicit BatchNorm(const BatchNormOptions& options) : options_(options) {}
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "batch_norm"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  std::vector<BufferSpec> buffers(std::span<const Shape> inputs) const override;
  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

  const BatchNormOptions& options() const { return options_; }

 private:
  BatchNormOptions options_;
};

}  // namespace tandem
