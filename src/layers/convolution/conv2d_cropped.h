#pragma once

#include <memory>
#include <optional>

#include "layers/convolution/conv2d_cpu.h"

namespace tandem {

/// The part of a window that meets the image at all: on an image of few pixels the rest sees
/// padding alone, wherever the window stands. A 3 x 3 window over one pixel is its centre.
struct WindowCrop {
  std::int64_t first = 0;  ///< the first row and column that are kept
  Window window;           ///< what is kept, with the padding that this leaves
};

/// For NHWC shapes of a convolution; none where all of the window is needed, where nothing of it
/// meets the image, and where a smaller window with the same padding on all sides is not the same.
std::optional<WindowCrop> crop_window(const Window& window, const Shape& input,
                                      const Shape& output);

/// A convolution computed by that of a cropped window; the weights that are cut off get zeros as
/// gradients. Included by .cpp files only.
class CroppedConvolution final : public CpuConvolution {
 public:
  /// `cropped` has `crop.window` and otherwise the options of the convolution asked for; `inputs`
  /// are the input channels of a group.
  CroppedConvolution(CpuContext& context, const Conv2dOptions& options, const WindowCrop& crop,
                     std::int64_t inputs, std::unique_ptr<CpuConvolution> cropped);

  std::size_t forward_scratch() const override;
  std::size_t backward_scratch() const override;
  void forward(const float* input, const float* weight, const float* bias, float* output,
               std::byte* scratch) override;
  void backward_weights(const float* input, const float* output_gradient, float* weight_gradient,
                        float* bias_gradient, std::byte* scratch) override;
  void backward_data(const float* output_gradient, const float* weight, float* input_gradient,
                     std::byte* scratch) override;

 private:
  /// Copies what is kept of `weight` to `scratch`, and returns that.
  const float* crop(const float* weight, std::byte* scratch) const;
  /// The other way, with zeros around it.
  void surround(const float* kept, float* weight) const;

  CpuContext* context_;
  std::int64_t outputs_;
  std::int64_t kernel_;
  std::int64_t first_;
  std::int64_t kept_kernel_;
  std::int64_t inputs_;
  std::size_t bytes_;  ///< of the weights that are kept
  std::unique_ptr<CpuConvolution> cropped_;
};

}  // namespace tandem
