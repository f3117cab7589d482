#include <algorithm>

#include "device/onednn.h"
#include "layers/linear/linear.h"

namespace tandem {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

class LinearCpuKernel : public LayerKernel {
 public:
  LinearCpuKernel(CpuContext& context, bool bias, const KernelRequest& request)
      : context_(&context),
        bias_(bias),
        weight_gradient_(request.wants_parameter(0) || (bias && request.wants_parameter(1))) {
    const dnnl::engine& engine = context.onednn().engine;
    const auto f32 = memory::data_type::f32;
    const std::int64_t in = request.inputs[0][1];
    const std::int64_t out = request.output[1];
    const memory::desc x({request.output[0], in}, f32, Tag::nc);
    const memory::desc w({out, in}, f32, Tag::nc);
    const memory::desc b({out}, f32, Tag::x);
    const memory::desc y({request.output[0], out}, f32, Tag::nc);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto kind =
        request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;

    using Forward = dnnl::inner_product_forward;
    const Forward::primitive_desc forward =
        bias ? onednn::make_pd<Forward>(engine, attributes, kind, x, w, b, y)
             : onednn::make_pd<Forward>(engine, attributes, kind, x, w, y);
    forward_ = declare(Forward(forward), forward.scratchpad_desc(), forward_scratch_,
                       {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    if (bias) forward_.declare(DNNL_ARG_BIAS, b, engine);
    if (!request.training) return;

    using Weights = dnnl::inner_product_backward_weights;
    const Weights::primitive_desc weights =
        bias ? onednn::make_backward_pd<Weights>(engine, attributes, forward, x, w, b, y)
             : onednn::make_backward_pd<Weights>(engine, attributes, forward, x, w, y);
    weights_ = declare(Weights(weights), weights.scratchpad_desc(), backward_scratch_,
                       {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, y}});
    if (bias) weights_.declare(DNNL_ARG_DIFF_BIAS, b, engine);

    using Data = dnnl::inner_product_backward_data;
    const Data::primitive_desc data =
        onednn::make_backward_pd<Data>(engine, attributes, forward, x, w, y);
    data_ = declare(Data(data), data.scratchpad_desc(), backward_scratch_,
                    {{DNNL_ARG_DIFF_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_DST, y}});
  }

  KernelMemory memory() const override {
    return {.saved = 0, .forward_scratch = forward_scratch_, .backward_scratch = backward_scratch_};
  }

  void forward(const ForwardArgs& args) override {
    forward_.set(DNNL_ARG_SRC, args.inputs[0].raw());
    forward_.set(DNNL_ARG_WEIGHTS, args.parameters[0].raw());
    if (bias_) forward_.set(DNNL_ARG_BIAS, args.parameters[1].raw());
    forward_.set(DNNL_ARG_DST, args.output.raw());
    forward_.set(DNNL_ARG_SCRATCHPAD, args.scratch);
    forward_.run(context_->onednn().stream);
  }

  void backward(const BackwardArgs& args) override {
    if (args.input_gradients[0].defined()) {
      data_.set(DNNL_ARG_DIFF_SRC, args.input_gradients[0].raw());
      data_.set(DNNL_ARG_WEIGHTS, args.parameters[0].raw());
      data_.set(DNNL_ARG_DIFF_DST, args.output_gradient.raw());
      data_.set(DNNL_ARG_SCRATCHPAD, args.scratch);
      data_.run(context_->onednn().stream);
    }
    if (!weight_gradient_) return;
    weights_.set(DNNL_ARG_SRC, args.inputs[0].raw());
    weights_.set(DNNL_ARG_DIFF_WEIGHTS, args.parameter_gradients[0].raw());
    if (bias_) weights_.set(DNNL_ARG_DIFF_BIAS, args.parameter_gradients[1].raw());
    weights_.set(DNNL_ARG_DIFF_DST, args.output_gradient.raw());
    weights_.set(DNNL_ARG_SCRATCHPAD, args.scratch);
    weights_.run(context_->onednn().stream);
  }

 private:
  onednn::BoundPrimitive declare(dnnl::primitive primitive, const memory::desc& scratchpad,
                                 std::size_t& scratch,
                                 const std::vector<std::pair<int, memory::desc>>& arguments) {
    const dnnl::engine& engine = context_->onednn().engine;
    onednn::BoundPrimitive bound(std::move(primitive));
    for (const auto& [argument, desc] : arguments) bound.declare(argument, desc, engine);
    bound.declare(DNNL_ARG_SCRATCHPAD, scratchpad, engine);
    scratch = std::max(scratch, scratchpad.get_size());
    return bound;
  }

  CpuContext* context_;
  bool bias_;
  bool weight_gradient_;
  onednn::BoundPrimitive forward_;
  onednn::BoundPrimitive weights_;
  onednn::BoundPrimitive data_;
  std::size_t forward_scratch_ = 0;
  std::size_t backward_scratch_ = 0;
};

}  // namespace

std::unique_ptr<LayerKernel> make_linear_kernel(CpuContext& context, bool bias,
                                                const KernelRequest& request) {
  return std::make_unique<LinearCpuKernel>(context, bias, request);
}

}  // namespace tandem
