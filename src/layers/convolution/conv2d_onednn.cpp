#include "layers/convolution/conv2d_onednn.h"

#include <algorithm>
#include <utility>

#include "device/arena.h"

namespace tandem {

using dnnl::memory;
using Tag = memory::format_tag;

/// oneDNN's logical extents are NCHW and (G)OIHW whatever the order in memory.
struct OneDnnConvolution::Descs {
  memory::desc input, output, plain_weight, any_weight, bias;
  memory::dims weight_extents, strides, dilation, padding;
  /// On the far side: what the output's size implies, which may be less than on the near one.
  memory::dims far_padding;

  Descs(const Conv2dOptions& o, const Shape& x, const Shape& y) {
    const auto f32 = memory::data_type::f32;
    input = {{x[0], x[3], x[1], x[2]}, f32, Tag::nhwc};
    output = {{y[0], y[3], y[1], y[2]}, f32, Tag::nhwc};
    const std::int64_t k = o.window.kernel;
    if (o.groups == 1) {
      weight_extents = {o.out_channels, x[3], k, k};
    } else {
      weight_extents = {o.groups, o.out_channels / o.groups, x[3] / o.groups, k, k};
    }
    plain_weight = {weight_extents, f32, o.groups == 1 ? Tag::ohwi : Tag::gohwi};
    any_weight = {weight_extents, f32, Tag::any};
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

/// Names of oneDNN's: capitals are blocks, in the order in which they lie, and numbers with letters
/// what lies in a block; a: outputs, b: inputs, c and d: the window's rows and columns.
constexpr std::pair<Tag, WeightBlocks> known_blocks[] = {
    {Tag::Acdb8a, {.outputs = 8, .outputs_inside = true}},
    {Tag::Acdb16a, {.outputs = 16, .outputs_inside = true}},
    {Tag::Acdb32a, {.outputs = 32, .outputs_inside = true}},
    {Tag::Acdb48a, {.outputs = 48, .outputs_inside = true}},
    {Tag::Acdb64a, {.outputs = 64, .outputs_inside = true}},
    {Tag::ABcd8b8a, {.outputs = 8, .inputs = 8, .outputs_inside = true}},
    {Tag::ABcd16b16a, {.outputs = 16, .inputs = 16, .outputs_inside = true}},
    {Tag::ABcd8a8b, {.outputs = 8, .inputs = 8}},
    {Tag::ABcd16a16b, {.outputs = 16, .inputs = 16}},
    {Tag::BAcd16a16b, {.outputs = 16, .inputs = 16, .inputs_outside = true}},
};

/// Undefined where `packed` is in no known format, or its shape does not fit that.
BlockedWeights find_blocks(const memory::desc& packed, const memory::dims& extents) {
  if (extents.size() != 4) return {};  // groups
  for (const auto& [tag, blocks] : known_blocks) {
    if (!BlockedWeights::fits(blocks, extents[0], extents[1])) continue;
    if (packed != memory::desc(extents, memory::data_type::f32, tag)) continue;
    return {blocks, extents[0], extents[2] * extents[3], extents[1]};
  }
  return {};
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
  forward_packing_ = make_packing(descs, descs.plain_weight, pd.weights_desc());
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
  gradient_packing_ = make_packing(descs, weights.diff_weights_desc(), descs.plain_weight);
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
  data_packing_ = make_packing(descs, descs.plain_weight, data.weights_desc());
  backward_scratch_ =
      std::max(backward_scratch_, data_packing_.bytes + data.scratchpad_desc().get_size());
}

OneDnnConvolution::Packing OneDnnConvolution::make_packing(const Descs& descs,
                                                           const memory::desc& from,
                                                           const memory::desc& to) {
  if (from == to) return {};
  const bool unpacks = to == descs.plain_weight;
  const memory::desc& packed = unpacks ? from : to;
  Packing packing;
  packing.bytes = Arena::align(packed.get_size());
  const BlockedWeights blocked = find_blocks(packed, descs.weight_extents);
  if (unpacks ? blocked.can_unpack() : blocked.defined()) {
    packing.blocked = blocked;
    return packing;
  }
  const dnnl::engine& engine = context_->onednn().engine;
  packing.reorder = onednn::BoundPrimitive(
      dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to)));
  packing.reorder.declare(DNNL_ARG_FROM, from, engine);
  packing.reorder.declare(DNNL_ARG_TO, to, engine);
  return packing;
}

void OneDnnConvolution::reorder(Packing& packing, const void* from, void* to) {
  packing.reorder.set(DNNL_ARG_FROM, from);
  packing.reorder.set(DNNL_ARG_TO, to);
  packing.reorder.run(context_->onednn().stream);
}

const void* OneDnnConvolution::pack(Packing& packing, const float* weight, std::byte* scratch) {
  if (!packing.needed()) return weight;
  if (packing.blocked.defined()) {
    packing.blocked.pack(*context_, weight, reinterpret_cast<float*>(scratch));
  } else {
    reorder(packing, weight, scratch);
  }
  return scratch;
}

void OneDnnConvolution::unpack(Packing& packing, const std::byte* scratch, float* weight) {
  if (!packing.needed()) return;
  if (packing.blocked.defined()) {
    packing.blocked.unpack(*context_, reinterpret_cast<const float*>(scratch), weight);
  } else {
    reorder(packing, scratch, weight);
  }
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
  backward_weights_.set(DNNL_ARG_SRC, input);
  backward_weights_.set(DNNL_ARG_DIFF_DST, output_gradient);
  backward_weights_.set(DNNL_ARG_DIFF_WEIGHTS,
                        gradient_packing_.needed() ? static_cast<void*>(scratch) : weight_gradient);
  backward_weights_.set(DNNL_ARG_SCRATCHPAD, scratch + gradient_packing_.bytes);
  if (bias_gradient != nullptr) backward_weights_.set(DNNL_ARG_DIFF_BIAS, bias_gradient);
  backward_weights_.run(context_->onednn().stream);
  unpack(gradient_packing_, scratch, weight_gradient);
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
