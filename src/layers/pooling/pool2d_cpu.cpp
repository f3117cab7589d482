#include "device/arena.h"
#include "device/onednn.h"
#include "layers/pooling/pool2d.h"

namespace tandem {
namespace {

using dnnl::memory;

memory::desc nhwc(const Shape& shape) {
  return {
      {shape[0], shape[3], shape[1], shape[2]}, memory::data_type::f32, memory::format_tag::nhwc};
}

/// oneDNN's pooling; for a maximum its workspace says which element was taken.
class PoolCpuKernel : public LayerKernel {
 public:
  PoolCpuKernel(CpuContext& context, const PoolGeometry& g, bool training) : context_(&context) {
    const dnnl::engine& engine = context.onednn().engine;
    const auto algorithm = g.kind == PoolKind::max ? dnnl::algorithm::pooling_max
                                                   : dnnl::algorithm::pooling_avg_exclude_padding;
    const memory::dims strides{g.stride, g.stride};
    const memory::dims kernel{g.rows, g.columns};
    const memory::dims padding{g.padding, g.padding};
    const auto far = [&](std::int64_t in, std::int64_t out, std::int64_t reach) {
      return (out - 1) * g.stride + reach - in - g.padding;
    };
    const memory::dims far_padding{far(g.input[1], g.output[1], g.rows),
                                   far(g.input[2], g.output[2], g.columns)};
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

    using Forward = dnnl::pooling_forward;
    const auto forward =
        onednn::make_pooling_pd<Forward>(engine, attributes, nhwc(g.input), nhwc(g.output),
                                         algorithm, strides, kernel, padding, far_padding);
    forward_ = onednn::BoundPrimitive(Forward(forward));
    forward_.declare(DNNL_ARG_SRC, forward.src_desc(), engine);
    forward_.declare(DNNL_ARG_DST, forward.dst_desc(), engine);
    forward_.declare(DNNL_ARG_SCRATCHPAD, forward.scratchpad_desc(), engine);
    forward_scratch_ = Arena::align(forward.scratchpad_desc().get_size());
    has_workspace_ = g.kind == PoolKind::max;
    if (has_workspace_) {
      workspace_ = Arena::align(forward.workspace_desc().get_size());
      forward_.declare(DNNL_ARG_WORKSPACE, forward.workspace_desc(), engine);
    }
    training_ = training;
    if (!training) return;

    using Backward = dnnl::pooling_backward;
    const auto backward = onednn::make_pooling_pd<Backward>(engine, attributes, nhwc(g.input),
                                                            nhwc(g.output), algorithm, strides,
                                                            kernel, padding, far_padding, forward);
    backward_ = onednn::BoundPrimitive(Backward(backward));
    backward_.declare(DNNL_ARG_DIFF_SRC, backward.diff_src_desc(), engine);
    backward_.declare(DNNL_ARG_DIFF_DST, backward.diff_dst_desc(), engine);
    backward_.declare(DNNL_ARG_SCRATCHPAD, backward.scratchpad_desc(), engine);
    backward_scratch_ = Arena::align(backward.scratchpad_desc().get_size());
    if (has_workspace_) {
      backward_.declare(DNNL_ARG_WORKSPACE, forward.workspace_desc(), engine);
    }
  }

  KernelMemory memory() const override {
    return {.saved = training_ ? workspace_ : 0,
            .forward_scratch = forward_scratch_ + (training_ ? 0 : workspace_),
            .backward_scratch = backward_scratch_};
  }

  void forward(const ForwardArgs& args) override {
    forward_.set(DNNL_ARG_SRC, args.inputs[0].raw());
    forward_.set(DNNL_ARG_DST, args.output.raw());
    forward_.set(DNNL_ARG_SCRATCHPAD, args.scratch);
    if (has_workspace_) {
      forward_.set(DNNL_ARG_WORKSPACE, training_ ? args.saved : args.scratch + forward_scratch_);
    }
    forward_.run(context_->onednn().stream);
  }

  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    backward_.set(DNNL_ARG_DIFF_SRC, args.input_gradients[0].raw());
    backward_.set(DNNL_ARG_DIFF_DST, args.output_gradient.raw());
    backward_.set(DNNL_ARG_SCRATCHPAD, args.scratch);
    if (has_workspace_) backward_.set(DNNL_ARG_WORKSPACE, args.saved);
    backward_.run(context_->onednn().stream);
  }

 private:
  CpuContext* context_;
  onednn::BoundPrimitive forward_;
  onednn::BoundPrimitive backward_;
  bool has_workspace_ = false;
  bool training_ = false;
  std::size_t workspace_ = 0;
  std::size_t forward_scratch_ = 0;
  std::size_t backward_scratch_ = 0;
};

}  // namespace

std::unique_ptr<LayerKernel> make_pool2d_kernel(CpuContext& context, const PoolGeometry& geometry,
                                                const KernelRequest& request) {
  return std::make_unique<PoolCpuKernel>(context, geometry, request.training);
}

}  // namespace tandem
