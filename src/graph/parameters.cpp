#include "graph/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "device/memory.h"
#include "tensor/convert.h"
#include "tensor/host_tensor.h"

namespace tandem {
namespace {

constexpr std::int64_t floats_per_line = 64 / sizeof(float);  // cache line

std::int64_t padded(std::int64_t elements) {
  return (elements + floats_per_line - 1) / floats_per_line * floats_per_line;
}

Tensor slice(const Arena& arena, std::int64_t offset, const Shape& shape) {
  return {reinterpret_cast<float*>(arena.data()) + offset, shape};
}

/// Elements of one parameter that one thread draws; each is a function of its index, so that the
/// cuts do not show.
struct Draw {
  const Parameter* parameter;
  std::size_t begin;
  std::span<float> elements;
};
constexpr std::size_t draw_elements = std::size_t{1} << 16U;

void draw(const Draw& d, std::uint64_t seed) {
  const Initializer& init = d.parameter->init;
  const auto scale = static_cast<float>(init.value);
  RandomStream random(seed, d.parameter->name);
  switch (init.kind) {
    case Initializer::Kind::constant:
      std::ranges::fill(d.elements, scale);
      break;
    case Initializer::Kind::normal:
      random.seek(2 * d.begin);
      for (float& element : d.elements) element = scale * random.normal();
      break;
    case Initializer::Kind::uniform:
      random.seek(d.begin);
      for (float& element : d.elements) element = random.uniform(-scale, scale);
      break;
  }
}

}  // namespace

void ParameterStore::lay_out_parameters(const Graph& graph, const NamePrefixes& frozen,
                                        bool trained, bool norms) {
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const std::vector<Shape> inputs = graph.input_shapes(i, 1);
    const std::vector<ParameterSpec> specs = node.layer->parameters(inputs);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (frozen.match(node.parameters[p]) == trained) continue;
      if ((specs[p].role == ParameterRole::norm) != norms) continue;
      const bool fresh = parameter_index_.emplace(node.parameters[p], parameters_.size()).second;
      TANDEM_CHECK(fresh, "two parameters are named '{}'", node.parameters[p]);
      parameters_.push_back({.name = node.parameters[p],
                             .shape = specs[p].shape,
                             .role = specs[p].role,
                             .init = specs[p].init,
                             .offset = parameter_extent_});
      parameter_extent_ += padded(specs[p].shape.elements());
    }
  }
}

ParameterStore::ParameterStore(const Graph& graph, AnyContext& context, bool with_gradients,
                               const NamePrefixes& frozen, Precision precision, std::int64_t ranks)
    : ranks_(ranks), context_(&context), weight_dtype_(activation_dtype(precision)) {
  TANDEM_CHECK(ranks > 0, "buffers of {} ranks", ranks);
  lay_out_parameters(graph, frozen, true, false);
  first_trained_norm_ = parameters_.size();
  lay_out_parameters(graph, frozen, true, true);
  trained_count_ = parameters_.size();
  trained_extent_ = parameter_extent_;
  for (const bool norms : {false, true}) lay_out_parameters(graph, frozen, false, norms);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (const std::string& name : node.parameters) model_order_.push_back(parameter_index(name));
    const std::vector<BufferSpec> specs = node.layer->buffers(graph.input_shapes(i, 1));
    for (std::size_t b = 0; b < specs.size(); ++b) {
      buffer_index_.emplace(node.buffers[b], buffers_.size());
      buffers_.push_back({.name = node.buffers[b],
                          .shape = specs[b].shape,
                          .initial = specs[b].initial,
                          .offset = buffer_extent_});
      buffer_extent_ += padded(specs[b].shape.elements());
    }
  }
  const auto bytes = [](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(float);
  };
  values_ = Arena(context, bytes(parameter_extent_), "the model's parameters");
  if (weight_dtype_ != DType::f32) {
    weights_ = Arena(context, static_cast<std::size_t>(parameter_extent_) * size_of(weight_dtype_),
                     "the weights' copies");
  }
  if (with_gradients) gradients_ = Arena(context, bytes(trained_extent_), "the gradients");
  buffers_arena_ = Arena(context, bytes(ranks_ * buffer_extent_), "the model's buffers");
}

void ParameterStore::place_values(const ArenaSource& source) {
  values_ = source(values_.bytes());
  if (weights_.data() != nullptr) weights_ = source(weights_.bytes());
}

void ParameterStore::place_gradients(const ArenaSource& source) {
  gradients_ = source(gradients_.bytes());
}

void ParameterStore::initialize(std::uint64_t seed) {
  std::vector<Draw> draws;
  HostTensor values(*context_, all_values());
  for (const Parameter& parameter : parameters_) {
    const std::span<float> all =
        values.tensor().span<float>().subspan(static_cast<std::size_t>(parameter.offset),
                                              static_cast<std::size_t>(parameter.shape.elements()));
    for (std::size_t begin = 0; begin < all.size(); begin += draw_elements) {
      draws.push_back(
          {&parameter, begin, all.subspan(begin, std::min(draw_elements, all.size() - begin))});
    }
  }
#pragma omp parallel for schedule(dynamic)
  for (const Draw& each : draws) draw(each, seed);
  values.write_back();
  update_weights();
  HostTensor buffers(*context_, all_buffers());
  for (const StateBuffer& buffer : buffers_) {
    std::ranges::fill_n(buffers.tensor().data<float>() + buffer.offset, buffer.shape.elements(),
                        buffer.initial);
  }
  buffers.write_back();
  share_buffers();
}

std::size_t ParameterStore::parameter_index(std::string_view name) const {
  const auto found = parameter_index_.find(std::string(name));
  TANDEM_CHECK(found != parameter_index_.end(), "no parameter is named '{}'", name);
  return found->second;
}

Tensor ParameterStore::value(std::size_t parameter) const {
  return slice(values_, parameters_[parameter].offset, parameters_[parameter].shape);
}

Tensor ParameterStore::weight(std::size_t parameter) const {
  if (weight_dtype_ == DType::f32) return value(parameter);
  const Parameter& found = parameters_[parameter];
  return {weights_.data() + static_cast<std::size_t>(found.offset) * size_of(weight_dtype_),
          found.shape, weight_dtype_};
}

void ParameterStore::update_weights() {
  if (weight_dtype_ != DType::f32) convert(*context_, all_values(), all_weights());
}

Tensor ParameterStore::gradient(std::size_t parameter) const {
  TANDEM_CHECK(gradients_.data() != nullptr, "this model was laid out without gradients");
  TANDEM_CHECK(is_trained(parameter), "'{}' is frozen", parameters_[parameter].name);
  return slice(gradients_, parameters_[parameter].offset, parameters_[parameter].shape);
}

Tensor ParameterStore::buffer(std::size_t index, std::int64_t rank) const {
  TANDEM_CHECK(rank >= 0 && rank < ranks_, "the buffers of rank {} of {}", rank, ranks_);
  return slice(buffers_arena_, rank * buffer_extent_ + buffers_[index].offset,
               buffers_[index].shape);
}

Tensor ParameterStore::buffer(std::string_view name) const {
  const auto found = buffer_index_.find(std::string(name));
  TANDEM_CHECK(found != buffer_index_.end(), "no buffer is named '{}'", name);
  return buffer(found->second);
}

Tensor ParameterStore::all_values() const { return slice(values_, 0, {parameter_extent_}); }
Tensor ParameterStore::all_weights() const {
  if (weight_dtype_ == DType::f32) return all_values();
  return {weights_.data(), {parameter_extent_}, weight_dtype_};
}
Tensor ParameterStore::trained_weights() const {
  if (weight_dtype_ == DType::f32) return trained_values();
  return {weights_.data(), {trained_extent_}, weight_dtype_};
}
Tensor ParameterStore::trained_values() const { return slice(values_, 0, {trained_extent_}); }
Tensor ParameterStore::all_gradients() const {
  TANDEM_CHECK(gradients_.data() != nullptr, "this model was laid out without gradients");
  return slice(gradients_, 0, {trained_extent_});
}
Tensor ParameterStore::all_buffers() const { return slice(buffers_arena_, 0, {buffer_extent_}); }
Tensor ParameterStore::buffers_of_ranks() const {
  return slice(buffers_arena_, 0, {ranks_ * buffer_extent_});
}

void ParameterStore::share_buffers() {
  if (buffers_.empty()) return;
  for (std::int64_t rank = 1; rank < ranks_; ++rank) {
    copy_on_device(*context_, all_buffers().raw(), all_buffers().bytes(),
                   slice(buffers_arena_, rank * buffer_extent_, {buffer_extent_}).raw());
  }
}

}  // namespace tandem
