#include "layers/conv_bn_cuda.h"

#include <algorithm>

#include "device/arena.h"
#include "layers/batch_norm_cuda.h"
#include "layers/convolution_cuda.h"

namespace tandem {
namespace {

Tensor residual_of(const ConvBnOptions& options, const ForwardArgs& args) {
  return options.add ? args.inputs[1] : Tensor();
}

/// Saved for backward: the convolution's output, the normalisation's tables.
class ConvBnTraining : public LayerKernel {
 public:
  ConvBnTraining(CudaContext& context, const ConvBnOptions& options, const KernelRequest& request)
      : options_(options),
        output_(request.output),
        dtype_(request.dtype()),
        input_gradient_(request.input_gradients[0]),
        weight_gradient_(request.wants_parameter(0)),
        split_(request.split_backward && weight_gradient_),
        norm_(context, {.shape = batch_norm_shape(request),
                        .options = options.norm,
                        .dtype = request.dtype(),
                        .training = true,
                        .fixed_statistics = request.fixed_statistics,
                        .ranks = request.rank_sum}),
        convolution_(make_cuda_convolution(context, options.conv, request.inputs[0], request.output,
                                           {.precision = request.precision,
                                            .input_gradient = input_gradient_,
                                            .adds = request.adds_to(0),
                                            .weight_gradient = weight_gradient_})) {}

  KernelMemory memory() const override {
    const std::size_t data = input_gradient_ ? convolution_->backward_data_scratch() : 0;
    const std::size_t weights = weight_gradient_ ? convolution_->backward_weights_scratch() : 0;
    return {.saved = convolved_bytes() + norm_.saved(),
            .forward_scratch = std::max(convolution_->forward_scratch(), norm_.forward_scratch()),
            .backward_scratch = std::max({norm_.backward_scratch(), data, split_ ? 0 : weights}),
            .weights_scratch = split_ ? weights : 0};
  }

  void forward(const ForwardArgs& args) override {
    const Tensor z = convolved(args.saved);
    convolution_->forward(args.inputs[0], args.weights[0], z, args.scratch);
    norm_.forward({.x = z,
                   .residual = residual_of(options_, args),
                   .activation = options_.activation,
                   .y = args.output,
                   .weight = args.parameters[1],
                   .bias = args.parameters[2],
                   .running_mean = args.buffers[0],
                   .running_variance = args.buffers[1],
                   .saved = args.saved + convolved_bytes(),
                   .scratch = args.scratch});
  }

  void backward(const BackwardArgs& args) override {
    // The gradient of the convolution's output takes the place of the output's.
    const bool convolved_gradient = input_gradient_ || weight_gradient_;
    norm_.backward({.x = convolved(args.saved),
                    .activation = options_.activation,
                    .residual = options_.add,
                    .y = args.output,
                    .output_gradient = args.output_gradient,
                    .residual_gradient = options_.add ? args.input_gradients[1] : Tensor(),
                    .input_gradient = convolved_gradient ? args.output_gradient : Tensor(),
                    .weight_gradient = args.parameter_gradients[1],
                    .bias_gradient = args.parameter_gradients[2],
                    .saved = args.saved + convolved_bytes(),
                    .scratch = args.scratch});
    if (input_gradient_) {
      convolution_->backward_data(args.output_gradient, args.weights[0], args.input_gradients[0],
                                  args.scratch);
    }
    if (weight_gradient_ && !split_) backward_weights(args);
  }

  bool splits_backward() const override { return split_; }

  /// Reads the convolution's input and what norm_.backward() left in the output's gradient, and
  /// writes the weight's gradient: nothing else of this layer's backward pass waits for it.
  void backward_weights(const BackwardArgs& args) override {
    convolution_->backward_weights(args.inputs[0], args.output_gradient,
                                   args.parameter_gradients[0], args.scratch);
  }

 private:
  std::size_t convolved_bytes() const {
    return Arena::align(static_cast<std::size_t>(output_.elements()) * size_of(dtype_));
  }
  Tensor convolved(std::byte* saved) const { return {saved, output_, dtype_}; }

  ConvBnOptions options_;
  Shape output_;
  DType dtype_;
  bool input_gradient_;
  bool weight_gradient_;
  bool split_;
  CudaBatchNorm norm_;
  std::unique_ptr<CudaConvolution> convolution_;
};

/// The convolution, then one pass over its output with the running statistics.
class ConvBnEvaluation : public LayerKernel {
 public:
  ConvBnEvaluation(CudaContext& context, const ConvBnOptions& options, const KernelRequest& request)
      : options_(options),
        norm_(context, {.shape = batch_norm_shape(request),
                        .options = options.norm,
                        .dtype = request.dtype()}),
        convolution_(make_cuda_convolution(context, options.conv, request.inputs[0], request.output,
                                           {.precision = request.precision})) {}

  KernelMemory memory() const override {
    return {.saved = 0,
            .forward_scratch = std::max(convolution_->forward_scratch(), norm_.forward_scratch()),
            .backward_scratch = 0};
  }

  void forward(const ForwardArgs& args) override {
    convolution_->forward(args.inputs[0], args.weights[0], args.output, args.scratch);
    norm_.forward({.x = args.output,
                   .residual = residual_of(options_, args),
                   .activation = options_.activation,
                   .y = args.output,
                   .weight = args.parameters[1],
                   .bias = args.parameters[2],
                   .running_mean = args.buffers[0],
                   .running_variance = args.buffers[1],
                   .scratch = args.scratch});
  }

  void backward(const BackwardArgs& /*args*/) override {
    throw Error("backward of a kernel prepared for evaluation");
  }

 private:
  ConvBnOptions options_;
  CudaBatchNorm norm_;
  std::unique_ptr<CudaConvolution> convolution_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_conv_bn_kernel(CudaContext& context, const ConvBnOptions& options,
                                                 const KernelRequest& request) {
  // Frozen, statistics and all, below whatever is trained: what evaluation does is all there is.
  const auto wanted = [](const std::vector<bool>& gradients) {
    return std::ranges::find(gradients, true) != gradients.end();
  };
  const bool constant = request.fixed_statistics && !wanted(request.input_gradients) &&
                        !request.parameter_gradients.empty() &&
                        !wanted(request.parameter_gradients);
  if (request.training && !constant) {
    return std::make_unique<ConvBnTraining>(context, options, request);
  }
  return std::make_unique<ConvBnEvaluation>(context, options, request);
}

}  // namespace tandem
