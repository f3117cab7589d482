#pragma once

#include <cstddef>
#include <optional>

#include "device/device_buffer.h"
#include "layers/activation.h"
#include "layers/normalisation/batch_norm.h"
#include "layers/normalisation/batch_norm_ways_cuda.h"

namespace tandem {

/// Batch normalisation of NHWC rows on a CUDA device, fused with what usually follows it: a
/// residual sum, an activation, a join. Two kernels forward, statistics and result, and two
/// backward; x is read twice in both, but where the kernel that makes x sums its statistics. Or
/// one: of tensors of some MB, for which most of the time would go into starting the second kernel,
/// both ways, of some ten MB forward (batch_norm_ways()). Enqueued on the context's stream; results
/// are the same bits from run to run, by the same way.
///
/// Several groups of rows, each with statistics of its own, take as many kernels as one.
///
/// One object normalises one tensor at a time: its kernels count their finished blocks in memory of
/// its own. Tensors are of one dtype, tables and parameters f32.
class CudaBatchNorm {
 public:
  CudaBatchNorm(CudaContext& context, const BatchNormSetup& setup);

  std::size_t saved() const;
  std::size_t forward_scratch() const;
  std::size_t backward_scratch() const;

  struct Forward {
    Tensor x;
    /// Where the setup has a product: its operands, and x is what forward() makes first.
    Tensor product_input{};
    Tensor product_weight{};
    Tensor second{};  ///< the residual, or what is joined, of a multiple of the channels of x
    /// What is left to do to a residual, which has no activation.
    InputNorm second_norm{};
    /// May be x; joined, of twice its channels, and then memory of its own. Undefined: it is left
    /// to be done by the table.
    Tensor y;
    Tensor weight;
    Tensor bias;
    Tensor running_mean;
    Tensor running_variance;
    std::int64_t running_apart = 0;  ///< ForwardArgs::buffers_apart
    std::byte* saved = nullptr;
    std::byte* scratch = nullptr;
  };
  /// y = activation(batch_norm(x) + residual), or joined with that. The table lies at the begin of
  /// `saved`, of `scratch` in evaluation.
  void forward(const Forward& args);

  struct Backward {
    Tensor x;
    /// The result, if it is read.
    Tensor y{};
    Tensor output_gradient;    ///< may be overwritten
    Tensor second_gradient{};  ///< undefined where not wanted
    /// Undefined where not wanted; may be output_gradient. Where the result was joined it is there,
    /// as memory of its own.
    Tensor input_gradient{};
    Tensor weight_gradient;
    Tensor bias_gradient;
    std::byte* saved = nullptr;
    std::byte* scratch = nullptr;
  };
  void backward(const Backward& args);
  /// Whether backward() reads `y`.
  bool reads_result() const {
    return setup_.use == SecondInput::residual && setup_.activation != Activation::none &&
           !saves_passes_;
  }

 private:
  /// The table and the running statistics; x too, where it is the product's result.
  void sum_statistics(const Forward& args, const BatchNormStatistics& statistics);
  /// Where gradients pass the activation behind a sum, in what is saved; null where backward finds
  /// that from the result.
  std::uint8_t* passes_in(std::byte* saved) const;
  std::size_t rank_bytes() const;
  std::size_t group_bytes() const;
  std::size_t coefficient_bytes() const;
  double all_rows() const;
  /// `sums` where they are taken over ranks.
  void backward_in_two(const Backward& args, const BatchNormGradients& gradients, double* sums);
  /// What the first pass leaves for the second: a gradient, and an activation of which the
  /// derivative is still to be found.
  struct Summed {
    Tensor gradient;
    Activation left = Activation::none;
  };
  Summed sum_gradients(const Backward& args, const BatchNormGradients& gradients, double* sums);

  CudaContext* context_;
  BatchNormSetup setup_;
  BatchNormWay way_{};                           ///< in training
  std::optional<ResidentTiles> resident_{};      ///< where the way has them
  std::optional<PersistentTiles> persistent_{};  ///< the same
  bool saves_passes_ = false;      ///< forward, for backward; then all tensors are 16-byte aligned
  std::size_t partial_bytes_ = 0;  ///< in training
  DeviceBuffer counters_;          ///< of unsigned; in training
};

std::unique_ptr<LayerKernel> make_batch_norm_kernel(CudaContext& context,
                                                    const BatchNormOptions& options,
                                                    const KernelRequest& request);

}  // namespace tandem
