#pragma once

#include <memory>

#include "device/cpu_context.h"
#include "layers/activation.h"
#include "layers/convolution/conv2d.h"

namespace tandem {

/// The three convolutions of one layer on the CPU. Activations are NHWC and parameters KRSC in
/// memory. Included by .cpp files only.
class CpuConvolution {
 public:
  struct Mode {
    bool training = false;
    bool bias = false;
    bool input_gradient = false;
    bool weight_gradient = true;
    bool add_to_output = false;                ///< y += ... instead of y = ...; evaluation only
    Activation activation = Activation::none;  ///< of the result; evaluation only
  };

  virtual ~CpuConvolution() = default;

  /// Bytes of scratch for forward(), and for each of the two backward passes.
  virtual std::size_t forward_scratch() const = 0;
  virtual std::size_t backward_scratch() const = 0;

  /// `bias` is null without one.
  virtual void forward(const float* input, const float* weight, const float* bias, float* output,
                       std::byte* scratch) = 0;
  /// `bias_gradient` is null without a bias.
  virtual void backward_weights(const float* input, const float* output_gradient,
                                float* weight_gradient, float* bias_gradient,
                                std::byte* scratch) = 0;
  virtual void backward_data(const float* output_gradient, const float* weight,
                             float* input_gradient, std::byte* scratch) = 0;
};

/// Tandem's own kernels for depthwise convolutions (depthwise_conv_cpu.h), oneDNN's for all others,
/// of no more of the window than meets the image (conv2d_cropped.h) and, where these are not to be
/// relied on, without their sums (conv2d_sum_apart.h).
std::unique_ptr<CpuConvolution> make_cpu_convolution(CpuContext& context,
                                                     const Conv2dOptions& options,
                                                     const Shape& input, const Shape& output,
                                                     const CpuConvolution::Mode& mode);

std::unique_ptr<LayerKernel> make_conv2d_kernel(CpuContext& context, const Conv2dOptions& options,
                                                const KernelRequest& request);

}  // namespace tandem
