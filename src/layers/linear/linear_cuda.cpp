#include <algorithm>
#include <memory>

#include "device/cuda_context.h"
#include "layers/linear/bias_cuda.h"
#include "layers/linear/biased_product.h"
#include "layers/linear/linear.h"
#include "layers/tuning/plan_tuner.h"

namespace tandem {
namespace {

/// The layer is a convolution of images of one pixel.
ConvolutionProblem as_convolution(ConvolutionOperation operation, const KernelRequest& request) {
  return {.operation = operation,
          .precision = request.precision,
          .batch = request.inputs[0][0],
          .channels = request.inputs[0][1],
          .out_channels = request.output[1]};
}

class LinearCudaKernel final : public LayerKernel {
 public:
  LinearCudaKernel(CudaContext& context, bool bias, const KernelRequest& request)
      : context_(&context),
        bias_(bias),
        bias_gradient_(bias && request.wants_parameter(1)),
        split_(request.split_backward && (request.wants_parameter(0) || bias_gradient_)) {
    using Operation = ConvolutionOperation;
    const auto choose = [&](Operation operation) {
      return choose_plan(context, as_convolution(operation, request));
    };
    forward_ = choose(Operation::forward);
    if (bias) {
      biased_ =
          choose_biased_product(context, as_convolution(Operation::forward, request), forward_);
    }
    memory_.forward_scratch = biased_ != nullptr ? biased_->scratch() : forward_->scratch();
    if (request.training && request.input_gradients[0]) {
      data_ = choose(Operation::data_gradient);
      memory_.backward_scratch = data_->scratch();
    }
    // The parts of backward run one after another and share their scratch.
    std::size_t& scratch = split_ ? memory_.weights_scratch : memory_.backward_scratch;
    if (request.wants_parameter(0)) {
      weights_ = choose(Operation::weight_gradient);
      scratch = std::max(scratch, weights_->scratch());
    }
    if (bias_gradient_) {
      scratch = std::max(scratch, column_sums_scratch(request.output[0], request.output[1]));
    }
  }

  KernelMemory memory() const override { return memory_; }

  void forward(const ForwardArgs& args) override {
    const void* x = args.inputs[0].raw();
    const void* weight = args.weights[0].raw();
    if (biased_ != nullptr) {
      biased_->run(x, weight, args.weights[1].raw(), args.output.raw(), args.scratch);
      return;
    }
    forward_->run(x, weight, args.output.raw(), args.scratch);
    if (bias_) add_bias(*context_, args.parameters[1], args.output);
  }

  void backward(const BackwardArgs& args) override {
    if (data_ != nullptr) {
      data_->run(args.output_gradient.raw(), args.weights[0].raw(), args.input_gradients[0].raw(),
                 args.scratch);
    }
    if (!split_) backward_weights(args);
  }

  bool splits_backward() const override { return split_; }
  bool leaves_gradient(std::size_t /*parameter*/) const override { return split_; }

  void backward_weights(const BackwardArgs& args) override {
    const Tensor& gradient = args.output_gradient;
    if (weights_ != nullptr) {
      weights_->run(args.inputs[0].raw(), gradient.raw(), args.parameter_gradients[0].raw(),
                    args.scratch);
    }
    if (bias_gradient_) {
      column_sums(*context_, gradient, args.parameter_gradients[1], args.scratch);
    }
  }

 private:
  CudaContext* context_;
  bool bias_;
  bool bias_gradient_;
  bool split_;
  std::unique_ptr<CublasMatmul> biased_;  ///< null: forward_, and the bias after it
  ConvolutionPlanPtr forward_;
  ConvolutionPlanPtr data_;
  ConvolutionPlanPtr weights_;
  KernelMemory memory_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_linear_kernel(CudaContext& context, bool bias,
                                                const KernelRequest& request) {
  return std::make_unique<LinearCudaKernel>(context, bias, request);
}

}  // namespace tandem
