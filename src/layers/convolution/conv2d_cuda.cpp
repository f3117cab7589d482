#include "layers/convolution/conv2d_cuda.h"

#include <algorithm>

#include "layers/convolution/convolution_cuda.h"
#include "layers/linear/bias_cuda.h"

namespace tandem {
namespace {

class Conv2dCudaKernel final : public LayerKernel {
 public:
  Conv2dCudaKernel(CudaContext& context, const Conv2dOptions& options, const KernelRequest& request)
      : context_(&context),
        bias_(options.bias),
        bias_gradient_(bias_ && request.wants_parameter(1)),
        mode_{.precision = request.precision,
              .input_gradient = request.training && request.input_gradients[0],
              .adds = request.adds_to(0),
              .weight_gradient = request.wants_parameter(0)},
        split_(request.split_backward && (mode_.weight_gradient || bias_gradient_)),
        convolution_(
            make_cuda_convolution(context, options, request.inputs[0], request.output, mode_)) {
    memory_.forward_scratch = convolution_->forward_scratch();
    if (mode_.input_gradient) memory_.backward_scratch = convolution_->backward_data_scratch();
    // The parts of backward run one after another and share their scratch.
    std::size_t& scratch = split_ ? memory_.weights_scratch : memory_.backward_scratch;
    if (mode_.weight_gradient) {
      scratch = std::max(scratch, convolution_->backward_weights_scratch());
    }
    if (bias_gradient_) {
      const std::int64_t columns = request.output[3];
      scratch =
          std::max(scratch, column_sums_scratch(request.output.elements() / columns, columns));
    }
  }

  KernelMemory memory() const override { return memory_; }

  void forward(const ForwardArgs& args) override {
    convolution_->forward({args.inputs[0]}, args.weights[0], args.output, args.scratch);
    if (bias_) add_bias(*context_, args.parameters[1], args.output);
  }

  void backward(const BackwardArgs& args) override {
    if (mode_.input_gradient) {
      convolution_->backward_data(args.output_gradient, args.weights[0], args.input_gradients[0],
                                  args.scratch);
    }
    if (!split_) backward_weights(args);
  }

  bool splits_backward() const override { return split_; }
  bool leaves_gradient(std::size_t /*parameter*/) const override { return split_; }

  void backward_weights(const BackwardArgs& args) override {
    if (mode_.weight_gradient) {
      convolution_->backward_weights({args.inputs[0]}, args.output_gradient,
                                     args.parameter_gradients[0], args.scratch);
    }
    if (bias_gradient_) {
      column_sums(*context_, args.output_gradient, args.parameter_gradients[1], args.scratch);
    }
  }

 private:
  CudaContext* context_;
  bool bias_;
  bool bias_gradient_;
  CudaConvolution::Mode mode_;
  bool split_;
  std::unique_ptr<CudaConvolution> convolution_;
  KernelMemory memory_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_conv2d_kernel(CudaContext& context, const Conv2dOptions& options,
                                                const KernelRequest& request) {
  return std::make_unique<Conv2dCudaKernel>(context, options, request);
}

}  // namespace tandem
