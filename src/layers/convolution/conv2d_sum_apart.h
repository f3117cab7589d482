#pragma once

#include <memory>

#include "layers/convolution/conv2d_cpu.h"

namespace tandem {

/// A convolution for evaluation that is added to what the output holds, y = activation(y +
/// conv(x)), of one that is not. oneDNN's own may crash where a window stands on padding alone
/// (seen with 2.6.3 on AVX-512). Included by .cpp files only.
class SumApartConvolution final : public CpuConvolution {
 public:
  /// `plain` overwrites its output, which is of this shape, and has no activation.
  SumApartConvolution(CpuContext& context, const Shape& output, Activation activation,
                      std::unique_ptr<CpuConvolution> plain);

  std::size_t forward_scratch() const override;
  std::size_t backward_scratch() const override { return 0; }
  void forward(const float* input, const float* weight, const float* bias, float* output,
               std::byte* scratch) override;
  void backward_weights(const float* input, const float* output_gradient, float* weight_gradient,
                        float* bias_gradient, std::byte* scratch) override;
  void backward_data(const float* output_gradient, const float* weight, float* input_gradient,
                     std::byte* scratch) override;

 private:
  CpuContext* context_;
  std::int64_t elements_;
  Activation activation_;
  std::size_t bytes_;  ///< of the plain convolution's output
  std::unique_ptr<CpuConvolution> plain_;
};

}  // namespace tandem
