#include "layers/convolution/conv2d_cpu.h"

#include "layers/convolution/conv2d_cropped.h"
#include "layers/convolution/conv2d_onednn.h"
#include "layers/convolution/conv2d_sum_apart.h"
#include "layers/convolution/depthwise_conv_cpu.h"

namespace tandem {
namespace {

class Conv2dCpuKernel : public LayerKernel {
 public:
  Conv2dCpuKernel(CpuContext& context, const Conv2dOptions& options, const KernelRequest& request)
      : bias_(options.bias),
        input_gradient_(request.training && request.input_gradients[0]),
        weight_gradient_(request.wants_parameter(0) || (bias_ && request.wants_parameter(1))),
        convolution_(make_cpu_convolution(context, options, request.inputs[0], request.output,
                                          {.training = request.training,
                                           .bias = options.bias,
                                           .input_gradient = input_gradient_,
                                           .weight_gradient = weight_gradient_})) {}

  KernelMemory memory() const override {
    return {.saved = 0,
            .forward_scratch = convolution_->forward_scratch(),
            .backward_scratch = convolution_->backward_scratch()};
  }

  void forward(const ForwardArgs& args) override {
    convolution_->forward(args.inputs[0].data<float>(), args.parameters[0].data<float>(),
                          bias_ ? args.parameters[1].data<float>() : nullptr,
                          args.output.data<float>(), args.scratch);
  }

  void backward(const BackwardArgs& args) override {
    const auto* gradient = args.output_gradient.data<float>();
    if (input_gradient_) {
      convolution_->backward_data(gradient, args.parameters[0].data<float>(),
                                  args.input_gradients[0].data<float>(), args.scratch);
    }
    if (!weight_gradient_) return;
    convolution_->backward_weights(
        args.inputs[0].data<float>(), gradient, args.parameter_gradients[0].data<float>(),
        bias_ ? args.parameter_gradients[1].data<float>() : nullptr, args.scratch);
  }

 private:
  bool bias_;
  bool input_gradient_;
  bool weight_gradient_;
  std::unique_ptr<CpuConvolution> convolution_;
};

}  // namespace

std::unique_ptr<CpuConvolution> make_cpu_convolution(CpuContext& context,
                                                     const Conv2dOptions& options,
                                                     const Shape& input, const Shape& output,
                                                     const CpuConvolution::Mode& mode) {
  if (DepthwiseConvolution::supports(options, input)) {
    return std::make_unique<DepthwiseConvolution>(context, options, input, output, mode);
  }
  if (mode.add_to_output && stands_on_padding(options.window, input, output)) {
    CpuConvolution::Mode plain = mode;
    plain.add_to_output = false;
    plain.activation = Activation::none;
    return std::make_unique<SumApartConvolution>(
        context, output, mode.activation,
        make_cpu_convolution(context, options, input, output, plain));
  }
  const std::optional<WindowCrop> crop = crop_window(options.window, input, output);
  if (!crop) return std::make_unique<OneDnnConvolution>(context, options, input, output, mode);
  Conv2dOptions cropped = options;
  cropped.window = crop->window;
  return std::make_unique<CroppedConvolution>(
      context, options, *crop, input[3] / options.groups,
      std::make_unique<OneDnnConvolution>(context, cropped, input, output, mode));
}

std::unique_ptr<LayerKernel> make_conv2d_kernel(CpuContext& context, const Conv2dOptions& options,
                                                const KernelRequest& request) {
  return std::make_unique<Conv2dCpuKernel>(context, options, request);
}

}  // namespace tandem
