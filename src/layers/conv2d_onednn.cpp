#include "layers/conv2d_onednn.h"

#include <algorithm>

#include "device/arena.h"

namespace tandem {

using dnnl::memory;
using Tag = memory::format_tag;

/// oneDNN's logical extents are NCHW and (G)OIHW whatever the order in memory.
struct OneDnnConvolution::Descs {
  memory::desc input, output, plain_weight, any_weight, bias;
  memory::dims strides, dilation, padding;
  /// On the far side: what the output's size implies, which may be less than on the near one.
  memory::dims far_padding;

  Descs(const Conv2dOptions& o, const Shape& x, const Shape& y) {
    const auto f32 = memory::data_type::f32;
    input = {{x[0], x[3], x[1], x[2]}, f32, Tag::nhwc};
    output = {{y[0], y[3], y[1], y[2]}, f32, Tag::nhwc};
    const std::int64_t k = o.window.kernel;
    if (o.groups == 1) {
      const memory::dims extents{o.out_channels, x[3], k, k};
      plain_weight = {extents, f32, Tag::ohwi};
      any_weight = {extents, f32, Tag::any};
    } else {
      const memory::dims extents{o.groups, o.out_channels / o.groups, x[3] / o.groups, k, k};
      plain_weight = {extents, f32, Tag::gohwi};
      any_weight = {extents, f32, Tag::any};
    }
    bias = {{o.out_channels}, f32, Tag::x};
    strides = {o.window.stride, o.window.stride};
    // oneDNN counts a dense kernel as dilation 0.
    dilation = {o.window.dilation - 1, o.window.dilation - 1};
    padding = {o.window.padding, o.window.padding};
    const std::int64_t reach = o.window.dilation * (o.window.kernel - 1) + 1;
    const auto far = [&](std::int64_t in, std::int64_t out) {
      return (out - 1) * o.window.stride + reach - in - o.window.padding;
    };
    far_padding = {far(x[1], y[1]), far(x[2], y[2])};
  }
};

namespace {

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void append(dnnl::post_ops& operations, Activation activation) {
  using dnnl::algorithm;
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return onednn::append_eltwise(operations, algorithm::eltwise_relu, 0.0F, 0.0F);
    case Activation::relu6:
      return onednn::append_eltwise(operations, algorithm::eltwise_clip, 0.0F, 6.0F);
    case Activation::silu:
      return onednn::append_eltwise(operations, algorithm::eltwise_swish, 1.0F, 0.0F);
    case Activation::sigmoid:
      return onednn::append_eltwise(operations, algorithm::eltwise_logistic, 0.0F, 0.0F);
  }
}

}  // namespace

OneDnnConvolution::OneDnnConvolution(CpuContext& context, const Conv2dOptions& options,
                                     const Shape& input, const Shape& output, const Mode& mode)
    : context_(&context) {
  const dnnl::engine& engine = context.onednn().engine;
  const Descs descs(options, input, output);
  dnnl::primitive_attr attributes = user_scratchpad();
  dnnl::post_ops operations;
  if (mode.add_to_output) operations.append_sum(1.0F);
  append(operations, mode.activation);
  attributes.set_post_ops(operations);

  using Forward = dnnl::convolution_forward;
  const auto kind =
      mode.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const Forward::primitive_desc pd =
      mode.bias
          ? onednn::make_pd<Forward>(engine, attributes, kind, algorithm, descs.input,
                                     descs.any_weight, descs.bias, descs.output, descs.strides,
                                     descs.dilation, descs.padding, descs.far_padding)
          : onednn::make_pd<Forward>(engine, attributes, kind, algorithm, descs.input,
                                     descs.any_weight, descs.output, descs.strides, descs.dilation,
                                     descs.padding, descs.far_padding);
  forward_ = onednn::BoundPrimitive(Forward(pd));
  forward_.declare(DNNL_ARG_SRC, pd.src_desc(), engine);
  forward_.declare(DNNL_ARG_WEIGHTS, pd.weights_desc(), engine);
  forward_.declare(DNNL_ARG_DST, pd.dst_desc(), engine);
  forward_.declare(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc(), engine);
  if (mode.bias) forward_.declare(DNNL_ARG_BIAS, pd.bias_desc(), engine);
  forward_packing_ = make_packing(descs.plain_weight, pd.weights_desc(), pd.weights_desc());
  forward_scratch_ = forward_packing_.bytes + pd.scratchpad_desc().get_size();
  if (mode.training && mode.weight_gradient) make_backward_weights(descs, pd, mode);
  if (mode.training && mode.input_gradient) make_backward_data(descs, pd);
}

void OneDnnConvolution::make_backward_weights(
    const Descs& descs, const dnnl::convolution_forward::primitive_desc& forward,
    const Mode& mode) {
  const dnnl::engine& engine = context_->onednn().engine;
  const dnnl::primitive_attr attributes = user_scratchpad();
  const auto algorithm = dnnl::algorithm::convolution_direct;

  using Weights = dnnl::convolution_backward_weights;
  const Weights::primitive_desc weights =
      mode.bias
          ? onednn::make_backward_pd<Weights>(
                engine, attributes, forward, algorithm, descs.input, descs.any_weight, descs.bias,
                descs.output, descs.strides, descs.dilation, descs.padding, descs.far_padding)
          : onednn::make_backward_pd<Weights>(engine, attributes, forward, algorithm, descs.input,
                                              descs.any_weight, descs.output, descs.strides,
                                              descs.dilation, descs.padding, descs.far_padding);
  backward_weights_ = onednn::BoundPrimitive(Weights(weights));
  backward_weights_.declare(DNNL_ARG_SRC, weights.src_desc(), engine);
  backward_weights_.declare(DNNL_ARG_DIFF_DST, weights.diff_dst_desc(), engine);
  backward_weights_.declare(DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc(), engine);
  backward_weights_.declare(DNNL_ARG_SCRATCHPAD, weights.scratchpad_desc(), engine);
  if (mode.bias) {
    backward_weights_.declare(DNNL_ARG_DIFF_BIAS, weights.diff_bias_desc(), engine);
  }
  gradient_packing_ =
      make_packing(weights.diff_weights_desc(), descs.plain_weight, weights.diff_weights_desc());
  backward_scratch_ = gradient_packing_.bytes + weights.scratchpad_desc().get_size();
}

void OneDnnConvolution::make_backward_data(
    const Descs& descs, const dnnl::convolution_forward::primitive_desc& forward) {
  const dnnl::engine& engine = context_->onednn().engine;
  const dnnl::primitive_attr attributes = user_scratchpad();
  const auto algorithm = dnnl::algorithm::convolution_direct;
  using Data = dnnl::convolution_backward_data;
  const Data::primitive_desc data = onednn::make_backward_pd<Data>(
      engine, attributes, forward, algorithm, descs.input, descs.any_weight, descs.output,
      descs.strides, descs.dilation, descs.padding, descs.far_padding);
  backward_data_ = onednn::BoundPrimitive(Data(data));
  backward_data_.declare(DNNL_ARG_DIFF_SRC, data.diff_src_desc(), engine);
  backward_data_.declare(DNNL_ARG_WEIGHTS, data.weights_desc(), engine);
  backward_data_.declare(DNNL_ARG_DIFF_DST, data.diff_dst_desc(), engine);
  backward_data_.declare(DNNL_ARG_SCRATCHPAD, data.scratchpad_desc(), engine);
  data_packing_ = make_packing(descs.plain_weight, data.weights_desc(), data.weights_desc());
  backward_scratch_ =
      std::max(backward_scratch_, data_packing_.bytes + data.scratchpad_desc().get_size());
}

OneDnnConvolution::Packing OneDnnConvolution::make_packing(const memory::desc& from,
                                                           const memory::desc& to,
                                                           const memory::desc& packed) {
  if (from == to) return {};
  const dnnl::engine& engine = context_->onednn().engine;
  Packing packing;
  packing.reorder = onednn::BoundPrimitive(
      dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to)));
  packing.reorder.declare(DNNL_ARG_FROM, from, engine);
  packing.reorder.declare(DNNL_ARG_TO, to, engine);
  packing.bytes = Arena::align(packed.get_size());
  return packing;
}

const void* OneDnnConvolution::pack(Packing& packing, const float* weight, std::byte* scratch) {
  if (!packing.reorder.defined()) return weight;
  packing.reorder.set(DNNL_ARG_FROM, weight);
  packing.reorder.set(DNNL_ARG_TO, scratch);
  packing.reorder.run(context_->onednn().stream);
  return scratch;
}

void OneDnnConvolution::forward(const float* input, const float* weight, const float* bias,
                                float* output, std::byte* scratch) {
  forward_.set(DNNL_ARG_WEIGHTS, pack(forward_packing_, weight, scratch));
  forward_.set(DNNL_ARG_SRC, input);
  forward_.set(DNNL_ARG_DST, output);
  forward_.set(DNNL_ARG_SCRATCHPAD, scratch + forward_packing_.bytes);
  if (bias != nullptr) forward_.set(DNNL_ARG_BIAS, bias);
  forward_.run(context_->onednn().stream);
}

void OneDnnConvolution::backward_weights(const float* input, const float* output_gradient,
                                         float* weight_gradient, float* bias_gradient,
                                         std::byte* scratch) {
  const bool packed = gradient_packing_.reorder.defined();
  backward_weights_.set(DNNL_ARG_SRC, input);
  backward_weights_.set(DNNL_ARG_DIFF_DST, output_gradient);
  backward_weights_.set(DNNL_ARG_DIFF_WEIGHTS,
                        packed ? static_cast<void*>(scratch) : weight_gradient);
  backward_weights_.set(DNNL_ARG_SCRATCHPAD, scratch + gradient_packing_.bytes);
  if (bias_gradient != nullptr) backward_weights_.set(DNNL_ARG_DIFF_BIAS, bias_gradient);
  backward_weights_.run(context_->onednn().stream);
  if (!packed) return;
  gradient_packing_.reorder.set(DNNL_ARG_FROM, scratch);
  gradient_packing_.reorder.set(DNNL_ARG_TO, weight_gradient);
  gradient_packing_.reorder.run(context_->onednn().stream);
}

void OneDnnConvolution::backward_data(const float* output_gradient, const float* weight,
                                      float* input_gradient, std::byte* scratch) {
  backward_data_.set(DNNL_ARG_WEIGHTS, pack(data_packing_, weight, scratch));
  backward_data_.set(DNNL_ARG_DIFF_DST, output_gradient);
  backward_data_.set(DNNL_ARG_DIFF_SRC, input_gradient);
  backward_data_.set(DNNL_ARG_SCRATCHPAD, scratch + data_packing_.bytes);
  backward_data_.run(context_->onednn().stream);
}

}  // namespace tandem
