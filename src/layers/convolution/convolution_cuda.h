#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "layers/convolution/conv2d.h"

namespace tandem {

/// The three convolutions of one layer on a CUDA device, prepared: kernels are chosen and nothing
/// is allocated or decided any more. x, y and their gradients NHWC and weights KRSC of the
/// activations' dtype; weight gradients f32. All is enqueued on the context's stream. Scratch is
/// 256-byte aligned and for one call. Included by sources only.
class CudaConvolution {
 public:
  struct Mode {
    Precision precision = Precision::fp32;
    bool input_gradient = false;   ///< whether backward_data will be called
    bool adds = false;             ///< whether backward_data adds to what is there
    bool weight_gradient = false;  ///< whether backward_weights will be called
    /// What is left to do to x; only of depthwise convolutions that the strips' kernels take.
    std::optional<DeferredNorm> input_norm{};
  };

  /// x, with the table that its maker left beside it where there is something left to do.
  struct Input {
    Tensor tensor;
    std::byte* norm = nullptr;  ///< ForwardArgs::input_norm
  };

  virtual ~CudaConvolution() = default;
  virtual std::size_t forward_scratch() const { return 0; }
  virtual std::size_t backward_data_scratch() const { return 0; }
  virtual std::size_t backward_weights_scratch() const { return 0; }

  /// y = x * weight; all of y is overwritten.
  virtual void forward(const Input& x, const Tensor& weight, const Tensor& y,
                       std::byte* scratch) = 0;
  /// dx overwritten, or added to where the mode says so.
  virtual void backward_data(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                             std::byte* scratch) = 0;
  /// dw, f32, overwritten.
  virtual void backward_weights(const Input& x, const Tensor& dy, const Tensor& dw,
                                std::byte* scratch) = 0;
};

/// Each of the three by the plan that was fastest (layers/tuning/plan_tuner.h), or with an input to
/// normalise, as below.
std::unique_ptr<CudaConvolution> make_cuda_convolution(CudaContext& context,
                                                       const Conv2dOptions& options,
                                                       const Shape& input, const Shape& output,
                                                       const CudaConvolution::Mode& mode);

/// A depthwise convolution whose mode has an `input_norm`.
std::unique_ptr<CudaConvolution> make_normalising_depthwise(CudaContext& context,
                                                            const Conv2dOptions& options,
                                                            const Shape& input, const Shape& output,
                                                            const CudaConvolution::Mode& mode);

}  // namespace tandem
