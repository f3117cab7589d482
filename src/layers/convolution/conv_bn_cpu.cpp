#include "layers/convolution/conv_bn_cpu.h"

#include <algorithm>
#include <cstring>

#include "device/arena.h"
#include "layers/convolution/conv2d_cpu.h"
#include "layers/normalisation/batch_norm_cpu.h"

namespace tandem {
namespace {

std::size_t float_bytes(std::int64_t count) {
  return Arena::align(static_cast<std::size_t>(count) * sizeof(float));
}

/// Saved for backward: the convolution's output, the batch's mean and inverse deviation.
class ConvBnTraining : public LayerKernel {
 public:
  ConvBnTraining(CpuContext& context, const ConvBnOptions& options, const KernelRequest& request)
      : context_(&context),
        options_(options),
        shape_(batch_norm_shape(request)),
        fixed_(request.fixed_statistics),
        ranks_(fixed_ ? nullptr : request.rank_sum),
        input_gradient_(request.input_gradients[0]),
        weight_gradient_(request.wants_parameter(0)),
        convolution_(make_cpu_convolution(context, options.conv, request.inputs[0], request.output,
                                          {.training = true,
                                           .input_gradient = input_gradient_,
                                           .weight_gradient = weight_gradient_})) {
    if (ranks_ != nullptr) ranks_->reserve(static_cast<std::size_t>(2 * shape_.channels));
  }

  KernelMemory memory() const override {
    const std::size_t norm = batch_norm_scratch(shape_);
    return {.saved = conv_bytes() + float_bytes(2 * shape_.groups * shape_.channels),
            .forward_scratch = std::max(convolution_->forward_scratch(), norm),
            .backward_scratch = std::max(convolution_->backward_scratch(), norm)};
  }

  void forward(const ForwardArgs& args) override {
    auto* z = reinterpret_cast<float*>(args.saved);
    auto* mean = reinterpret_cast<float*>(args.saved + conv_bytes());
    convolution_->forward(args.inputs[0].data<float>(), args.parameters[0].data<float>(), nullptr,
                          z, args.scratch);
    batch_norm_forward(*context_, shape_, options_.norm,
                       {.x = z,
                        .residual = options_.add ? args.inputs[1].data<float>() : nullptr,
                        .activation = options_.activation,
                        .y = args.output.data<float>(),
                        .weight = args.parameters[1].data<float>(),
                        .bias = args.parameters[2].data<float>(),
                        .running_mean = args.buffers[0].data<float>(),
                        .running_variance = args.buffers[1].data<float>(),
                        .running_apart = args.buffers_apart,
                        .mean = mean,
                        .inverse_deviation = mean + shape_.groups * shape_.channels,
                        .ranks = ranks_,
                        .fixed_statistics = fixed_},
                       args.scratch);
  }

  void backward(const BackwardArgs& args) override {
    const auto* mean = reinterpret_cast<const float*>(args.saved + conv_bytes());
    auto* gradient = args.output_gradient.data<float>();
    const bool residual = options_.add && args.input_gradients[1].defined();
    batch_norm_backward(
        *context_, shape_,
        {.x = reinterpret_cast<const float*>(args.saved),
         .activation = options_.activation,
         .y = args.output.data<float>(),
         .mean = mean,
         .inverse_deviation = mean + shape_.groups * shape_.channels,
         .weight = args.parameters[1].data<float>(),
         .bias = args.parameters[2].data<float>(),
         .output_gradient = gradient,
         .residual_gradient = residual ? args.input_gradients[1].data<float>() : nullptr,
         .input_gradient = gradient,
         .weight_gradient = args.parameter_gradients[1].data<float>(),
         .bias_gradient = args.parameter_gradients[2].data<float>(),
         .ranks = ranks_,
         .fixed_statistics = fixed_},
        args.scratch);
    if (input_gradient_) {
      convolution_->backward_data(gradient, args.parameters[0].data<float>(),
                                  args.input_gradients[0].data<float>(), args.scratch);
    }
    if (!weight_gradient_) return;
    convolution_->backward_weights(args.inputs[0].data<float>(), gradient,
                                   args.parameter_gradients[0].data<float>(), nullptr,
                                   args.scratch);
  }

 private:
  std::size_t conv_bytes() const { return float_bytes(shape_.groups * shape_.elements()); }

  CpuContext* context_;
  ConvBnOptions options_;
  BatchNormShape shape_;
  bool fixed_;
  RankSum* ranks_;
  bool input_gradient_;
  bool weight_gradient_;
  std::unique_ptr<CpuConvolution> convolution_;
};

/// One convolution whose weights carry the normalisation's scale and whose bias is its shift; the
/// residual is laid into the output first and summed there.
class ConvBnEvaluation : public LayerKernel {
 public:
  ConvBnEvaluation(CpuContext& context, const ConvBnOptions& options, const KernelRequest& request)
      : options_(options),
        weights_per_channel_(options.conv.window.kernel * options.conv.window.kernel *
                             (request.inputs[0][3] / options.conv.groups)),
        convolution_(make_cpu_convolution(
            context, options.conv, request.inputs[0], request.output,
            {.bias = true, .add_to_output = options.add, .activation = options.activation})) {}

  KernelMemory memory() const override {
    return {.saved = 0,
            .forward_scratch = folded_bytes() + convolution_->forward_scratch(),
            .backward_scratch = 0};
  }

  void forward(const ForwardArgs& args) override {
    const std::int64_t channels = options_.conv.out_channels;
    auto* weight = reinterpret_cast<float*>(args.scratch);
    auto* scale =
        reinterpret_cast<float*>(args.scratch + float_bytes(channels * weights_per_channel_));
    float* shift = scale + channels;
    batch_norm_inverse_deviation(channels, args.buffers[1].data<float>(), options_.norm.epsilon,
                                 shift);
    // `shift` holds the deviation until its element is replaced.
    batch_norm_fold(channels, args.parameters[1].data<float>(), args.parameters[2].data<float>(),
                    args.buffers[0].data<float>(), shift, scale, shift);
    const auto* plain = args.parameters[0].data<float>();
    for (std::int64_t k = 0; k < channels; ++k) {
      for (std::int64_t i = 0; i < weights_per_channel_; ++i) {
        weight[k * weights_per_channel_ + i] = plain[k * weights_per_channel_ + i] * scale[k];
      }
    }
    if (options_.add) std::memcpy(args.output.raw(), args.inputs[1].raw(), args.output.bytes());
    convolution_->forward(args.inputs[0].data<float>(), weight, shift, args.output.data<float>(),
                          args.scratch + folded_bytes());
  }

  void backward(const BackwardArgs& /*args*/) override {
    throw Error("backward of a kernel prepared for evaluation");
  }

 private:
  std::size_t folded_bytes() const {
    const std::int64_t channels = options_.conv.out_channels;
    return float_bytes(channels * weights_per_channel_) + float_bytes(2 * channels);
  }

  ConvBnOptions options_;
  std::int64_t weights_per_channel_;
  std::unique_ptr<CpuConvolution> convolution_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_conv_bn_kernel(CpuContext& context, const ConvBnOptions& options,
                                                 const KernelRequest& request) {
  if (options.join) return make_joined_conv_bn_kernel(context, options, request);
  if (request.training && !conv_bn_is_constant(request)) {
    return std::make_unique<ConvBnTraining>(context, options, request);
  }
  return std::make_unique<ConvBnEvaluation>(context, options, request);
}

}  // namespace tandem
