#include "device/arena.h"
#include "layers/convolution/conv_bn_cpu.h"
#include "layers/shuffle_join.h"

namespace tandem {
namespace {

/// The layer without its join, then the join: one pass for both would write every second float.
/// Saved for backward: that layer's result, and what it saves itself.
class JoinedConvBn : public LayerKernel {
 public:
  JoinedConvBn(CpuContext& context, ConvBnOptions options, const KernelRequest& request)
      : context_(&context),
        own_(conv2d_output_shape(options.conv, request.inputs[0])),
        join_{.rows = own_[0] * own_[1] * own_[2],
              .channels_a = request.inputs[1][3],
              .channels_b = own_[3]},
        training_(request.training) {
    options.join = false;
    KernelRequest alone = request;
    alone.inputs.resize(1);
    alone.output = own_;
    if (training_) alone.input_gradients.resize(1);
    alone.adds = {request.adds_to(0)};
    backward_ = training_ && !conv_bn_is_constant(alone);
    kernel_ = make_conv_bn_kernel(context, options, alone);
  }

  KernelMemory memory() const override {
    KernelMemory memory = kernel_->memory();
    (training_ ? memory.saved : memory.forward_scratch) += own_bytes();
    memory.backward_scratch += own_bytes();
    return memory;
  }

  void forward(const ForwardArgs& args) override {
    ForwardArgs alone = args;
    alone.inputs = args.inputs.first(1);
    alone.output = split_off(training_ ? alone.saved : alone.scratch);
    kernel_->forward(alone);
    shuffle_join_forward(*context_, join_, args.inputs[1], alone.output, args.output);
  }

  void backward(const BackwardArgs& args) override {
    BackwardArgs alone = args;
    alone.inputs = args.inputs.first(1);
    alone.input_gradients = args.input_gradients.first(1);
    alone.output = split_off(alone.saved);
    alone.output_gradient = split_off(alone.scratch);
    shuffle_join_backward(
        *context_, join_,
        {.output_gradient = args.output_gradient,
         .gradients = {args.input_gradients[1], backward_ ? alone.output_gradient : Tensor()},
         .add = {false, false}});
    if (backward_) kernel_->backward(alone);
  }

 private:
  std::size_t own_bytes() const {
    return Arena::align(static_cast<std::size_t>(own_.elements()) * sizeof(float));
  }
  /// The front of `memory` as a tensor like the result before the join; the rest is left there.
  Tensor split_off(std::byte*& memory) const {
    std::byte* front = memory;
    memory += own_bytes();
    return {front, own_};
  }

  CpuContext* context_;
  Shape own_;
  ShuffleJoinShape join_;
  bool training_;
  bool backward_ = false;
  std::unique_ptr<LayerKernel> kernel_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_joined_conv_bn_kernel(CpuContext& context,
                                                        const ConvBnOptions& options,
                                                        const KernelRequest& request) {
  return std::make_unique<JoinedConvBn>(context, options, request);
}

}  // namespace tandem
