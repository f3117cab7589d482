#include "layers/convolution/conv_bn_cuda.h"

#include <algorithm>

#include "device/arena.h"
#include "layers/convolution/convolution_cuda.h"
#include "layers/convolution/pointwise_statistics.h"
#include "layers/normalisation/batch_norm_choice_cuda.h"
#include "layers/normalisation/batch_norm_cuda.h"

namespace tandem {
namespace {

SecondInput second_use(const ConvBnOptions& options) {
  if (options.join) return SecondInput::joined;
  return options.add ? SecondInput::residual : SecondInput::none;
}

/// What goes with it, of the layer's inputs or their gradients.
Tensor second_of(SecondInput use, std::span<const Tensor> tensors) {
  return use == SecondInput::none ? Tensor() : tensors[1];
}

/// What is left to do to the layer's input of that place.
std::optional<DeferredNorm> left_of(const KernelRequest& request, std::size_t input) {
  return request.input_norm && request.input_norm->input == input ? request.input_norm
                                                                  : std::nullopt;
}

/// The first input, for the convolution.
template <typename Args>
CudaConvolution::Input first_input(const std::optional<DeferredNorm>& left, const Args& args) {
  return {args.inputs[0], left && left->input == 0 ? args.input_norm : nullptr};
}

/// How the second is normalised as it is added.
InputNorm second_norm(const std::optional<DeferredNorm>& left, const ForwardArgs& args) {
  if (!left || left->input != 1) return {};
  const Shape& shape = args.inputs[1].shape();
  return input_norm_of(*left, args.input_norm, shape[3], shape[0]);
}

/// Of the normalisation in training; with the convolution as its product where one kernel for both
/// is the fastest way.
BatchNormSetup training_norm(CudaContext& context, const ConvBnOptions& options,
                             const KernelRequest& request) {
  BatchNormSetup setup{.shape = batch_norm_shape(request),
                       .options = options.norm,
                       .dtype = request.dtype(),
                       .training = true,
                       .fixed_statistics = request.fixed_statistics,
                       .ranks = request.rank_sum,
                       .defers = request.defers_norm,
                       .use = second_use(options),
                       .second_is_left = left_of(request, 1).has_value(),
                       .activation = options.activation};
  const auto takes_product = [&](const BatchNormWay& way) {
    if (left_of(request, 0) || !setup.has_batch_statistics() ||
        way.forward != NormForward::two_kernels) {
      return false;
    }
    const ConvolutionProblem problem =
        convolution_problem(ConvolutionOperation::forward, request.precision, options.conv,
                            request.inputs[0], request.output);
    setup.product = choose_pointwise_statistics(context, problem, setup.shape);
    return setup.product.has_value();
  };
  // First: a trial of two kernels knows nothing of one that makes x and sums what the first of
  // them would read x for alone.
  setup.way = batch_norm_ways(context, setup).front();
  if (takes_product(*setup.way)) return setup;
  setup.way = choose_batch_norm_way(context, setup, request.norm_kernels);
  takes_product(*setup.way);
  return setup;
}

/// Saved for backward: the convolution's output, the normalisation's tables. Where the
/// normalisation is left to the reader, they are the layer's output and its table.
class ConvBnTraining : public LayerKernel {
 public:
  ConvBnTraining(CudaContext& context, const ConvBnOptions& options, const KernelRequest& request)
      : use_(second_use(options)),
        convolved_(request.output),
        dtype_(request.dtype()),
        input_gradient_(request.input_gradients[0]),
        weight_gradient_(request.wants_parameter(0)),
        split_(request.split_backward && weight_gradient_),
        defers_(request.defers_norm),
        left_(request.input_norm),
        setup_(training_norm(context, options, request)),
        norm_(context, setup_),
        convolution_(make_cuda_convolution(context, options.conv, request.inputs[0], request.output,
                                           {.precision = request.precision,
                                            .input_gradient = input_gradient_,
                                            .adds = request.adds_to(0),
                                            .weight_gradient = weight_gradient_,
                                            .input_norm = left_of(request, 0)})) {}

  KernelMemory memory() const override {
    const std::size_t data = input_gradient_ ? convolution_->backward_data_scratch() : 0;
    const std::size_t weights = weight_gradient_ ? convolution_->backward_weights_scratch() : 0;
    return {.saved = defers_ ? 0 : convolved_bytes() + norm_.saved(),
            .output_norm = defers_ ? norm_.saved() : 0,
            .forward_scratch = std::max(makes_product() ? 0 : convolution_->forward_scratch(),
                                        norm_.forward_scratch()),
            .backward_scratch = std::max({norm_.backward_scratch(), data, split_ ? 0 : weights}),
            .handed_on = use_ == SecondInput::joined ? convolved_bytes() : 0,
            .weights_scratch = split_ ? weights : 0};
  }

  void forward(const ForwardArgs& args) override {
    const Tensor z = convolved(args);
    if (!makes_product()) {
      convolution_->forward(first_input(left_, args), args.weights[0], z, args.scratch);
    }
    norm_.forward({.x = z,
                   .product_input = args.inputs[0],
                   .product_weight = args.weights[0],
                   .second = second_of(use_, args.inputs),
                   .second_norm = second_norm(left_, args),
                   .y = defers_ ? Tensor() : args.output,
                   .weight = args.parameters[1],
                   .bias = args.parameters[2],
                   .running_mean = args.buffers[0],
                   .running_variance = args.buffers[1],
                   .running_apart = args.buffers_apart,
                   .saved = table(args),
                   .scratch = args.scratch});
  }

  void backward(const BackwardArgs& args) override {
    const Tensor dz = convolved_gradient(args);
    const bool wanted = input_gradient_ || weight_gradient_ || use_ == SecondInput::joined;
    norm_.backward({.x = convolved(args),
                    .y = args.output,
                    .output_gradient = args.output_gradient,
                    .second_gradient = second_of(use_, args.input_gradients),
                    .input_gradient = wanted ? dz : Tensor(),
                    .weight_gradient = args.parameter_gradients[1],
                    .bias_gradient = args.parameter_gradients[2],
                    .saved = table(args),
                    .scratch = args.scratch});
    if (input_gradient_) {
      convolution_->backward_data(dz, args.weights[0], args.input_gradients[0], args.scratch);
    }
    if (weight_gradient_ && !split_) backward_weights(args);
  }

  bool reads_output() const override { return defers_ || norm_.reads_result(); }
  bool splits_backward() const override { return split_; }
  bool leaves_gradient(std::size_t parameter) const override { return split_ && parameter == 0; }

  /// Reads the convolution's input and the gradient of its output, which norm_.backward() left, and
  /// writes the weight's gradient: nothing else of this layer's backward pass waits for it.
  void backward_weights(const BackwardArgs& args) override {
    convolution_->backward_weights(first_input(left_, args), convolved_gradient(args),
                                   args.parameter_gradients[0], args.scratch);
  }

 private:
  /// Whether the convolution is the normalisation's first kernel.
  bool makes_product() const { return setup_.product.has_value(); }
  std::size_t convolved_bytes() const {
    return Arena::align(static_cast<std::size_t>(convolved_.elements()) * size_of(dtype_));
  }
  Tensor convolved_in(std::byte* memory) const { return {memory, convolved_, dtype_}; }
  template <typename Args>
  Tensor convolved(const Args& args) const {
    return defers_ ? args.output : convolved_in(args.saved);
  }
  template <typename Args>
  std::byte* table(const Args& args) const {
    return defers_ ? args.output_norm : args.saved + convolved_bytes();
  }
  /// It takes the place of the output's gradient, unless that is of a joined tensor.
  Tensor convolved_gradient(const BackwardArgs& args) const {
    return use_ == SecondInput::joined ? convolved_in(args.handed_on) : args.output_gradient;
  }

  SecondInput use_;
  Shape convolved_;
  DType dtype_;
  bool input_gradient_;
  bool weight_gradient_;
  bool split_;
  bool defers_;
  std::optional<DeferredNorm> left_;
  BatchNormSetup setup_;
  CudaBatchNorm norm_;
  std::unique_ptr<CudaConvolution> convolution_;
};

/// The convolution, then one pass over its output with the running statistics.
class ConvBnEvaluation : public LayerKernel {
 public:
  ConvBnEvaluation(CudaContext& context, const ConvBnOptions& options, const KernelRequest& request)
      : use_(second_use(options)),
        defers_(request.defers_norm),
        left_(request.input_norm),
        convolved_(nullptr, request.output, request.dtype()),
        norm_(context, {.shape = batch_norm_shape(request),
                        .options = options.norm,
                        .dtype = request.dtype(),
                        .use = use_,
                        .second_is_left = left_of(request, 1).has_value(),
                        .activation = options.activation}),
        convolution_(make_cuda_convolution(
            context, options.conv, request.inputs[0], request.output,
            {.precision = request.precision, .input_norm = left_of(request, 0)})) {}

  KernelMemory memory() const override {
    const std::size_t table = norm_.forward_scratch();
    return {.saved = 0,
            .output_norm = defers_ ? table : 0,
            .forward_scratch =
                apart_bytes() + std::max(convolution_->forward_scratch(), defers_ ? 0 : table),
            .backward_scratch = 0};
  }

  void forward(const ForwardArgs& args) override {
    std::byte* scratch = args.scratch + apart_bytes();
    const Tensor z = use_ == SecondInput::joined
                         ? Tensor(args.scratch, convolved_.shape(), convolved_.dtype())
                         : args.output;
    convolution_->forward(first_input(left_, args), args.weights[0], z, scratch);
    norm_.forward({.x = z,
                   .second = second_of(use_, args.inputs),
                   .second_norm = second_norm(left_, args),
                   .y = defers_ ? Tensor() : args.output,
                   .weight = args.parameters[1],
                   .bias = args.parameters[2],
                   .running_mean = args.buffers[0],
                   .running_variance = args.buffers[1],
                   .scratch = defers_ ? args.output_norm : scratch});
  }

  void backward(const BackwardArgs& /*args*/) override {
    throw Error("backward of a kernel prepared for evaluation");
  }

 private:
  /// Of the convolution's output, where the layer's is not in its place.
  std::size_t apart_bytes() const {
    return use_ == SecondInput::joined ? Arena::align(convolved_.bytes()) : 0;
  }

  SecondInput use_;
  bool defers_;
  std::optional<DeferredNorm> left_;
  Tensor convolved_;  // without memory
  CudaBatchNorm norm_;
  std::unique_ptr<CudaConvolution> convolution_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_conv_bn_kernel(CudaContext& context, const ConvBnOptions& options,
                                                 const KernelRequest& request) {
  // A join takes place in the last pass: all before it knows the convolution's output alone.
  KernelRequest unjoined = request;
  if (options.join) unjoined.output = conv2d_output_shape(options.conv, request.inputs[0]);
  if (request.training && !conv_bn_is_constant(request)) {
    return std::make_unique<ConvBnTraining>(context, options, unjoined);
  }
  return std::make_unique<ConvBnEvaluation>(context, options, unjoined);
}

}  // namespace tandem
