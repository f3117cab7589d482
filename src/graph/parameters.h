#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/arena.h"
#include "graph/graph.h"
#include "graph/name_prefixes.h"

namespace tandem {

/// One parameter's place: elements [offset, offset + shape.elements()) of the value arena and,
/// where it is trained, of the gradient arena.
struct Parameter {
  std::string name;
  Shape shape;
  ParameterRole role = ParameterRole::weight;
  Initializer init;
  std::int64_t offset = 0;
};

/// The trained parameters [first, last) in a store's order.
struct ParameterRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// A running statistic's place in the buffer arena.
struct StateBuffer {
  std::string name;
  Shape shape;
  float initial = 0.0F;
  std::int64_t offset = 0;
};

/// A model's parameters, gradients and buffers: one f32 arena each. Weights and biases lie in the
/// order in which backward finishes them, so that any run of them is one contiguous slice of
/// gradients. Normalisations' parameters, which are few, lie behind them in the same order:
/// backward computes their gradients in line, those of weights often aside (graph/step_plan.h), so
/// that a run of both would be done late and in use early. Frozen parameters lie behind the trained
/// ones and have no gradient. Each starts on a 64-byte boundary; gaps are zero and stay zero. Where
/// products read another type than f32, there is a fourth arena, laid out like the values in
/// elements, of the values rounded to it.
///
/// Where a process trains several ranks, each has buffers of its own, the first one's being the
/// model's, which are saved and evaluated.
class ParameterStore {
 public:
  /// Lays out the parameters of `graph`, which must be the graph that is run (fused or not: names
  /// decide, order follows this graph). With `with_gradients` false there is no gradient arena.
  /// Parameters that `frozen` matches are not trained. `ranks` with buffers, one at least.
  ParameterStore(const Graph& graph, AnyContext& context, bool with_gradients,
                 const NamePrefixes& frozen = {}, Precision precision = Precision::fp32,
                 std::int64_t ranks = 1);

  /// Moves the values and the weights, which must not have been used yet, to other memory.
  void place_values(const ArenaSource& source);
  /// As place_values(), of the gradients.
  void place_gradients(const ArenaSource& source);

  /// Sets every parameter from (seed, its name) and every buffer to its initial value.
  void initialize(std::uint64_t seed);

  /// The trained ones first.
  std::span<const Parameter> parameters() const { return parameters_; }
  std::span<const Parameter> trained() const { return {parameters_.data(), trained_count_}; }
  /// Of the trained parameters the first one of a normalisation; trained().size() without any.
  std::size_t first_trained_norm() const { return first_trained_norm_; }
  bool is_trained(std::size_t parameter) const { return parameter < trained_count_; }
  /// Indices of all parameters in the order of the graph's nodes.
  std::span<const std::size_t> model_order() const { return model_order_; }
  std::span<const StateBuffer> buffers() const { return buffers_; }
  /// Index by name; throws Error where there is none.
  std::size_t parameter_index(std::string_view name) const;

  Tensor value(std::size_t parameter) const;
  /// What products read: the value, or its copy in the activations' dtype.
  Tensor weight(std::size_t parameter) const;
  /// Of a trained parameter.
  Tensor gradient(std::size_t parameter) const;
  /// Of the first rank, or of another.
  Tensor buffer(std::size_t index, std::int64_t rank = 0) const;
  /// Of the first rank, of that name; throws Error where there is none.
  Tensor buffer(std::string_view name) const;

  /// The whole arenas as flat f32 tensors, gaps included.
  Tensor all_values() const;
  Tensor all_weights() const;
  /// The trained parameters' part of all_values(), as long as all_gradients().
  Tensor trained_values() const;
  Tensor trained_weights() const;
  Tensor all_gradients() const;
  /// Of the first rank.
  Tensor all_buffers() const;
  /// Of all ranks, one's behind the other's.
  Tensor buffers_of_ranks() const;

  /// Of how many ranks there are buffers.
  std::int64_t ranks() const { return ranks_; }
  /// Elements from a rank's buffer to the next one's; 0 with one rank.
  std::int64_t buffers_apart() const { return ranks_ == 1 ? 0 : buffer_extent_; }
  /// Makes all ranks' buffers the first one's, after these were written. Done on return.
  void share_buffers();

  /// Rounds the values to the weights, after they were written; enqueued on a device. Nothing where
  /// they are the same.
  void update_weights();

  AnyContext& context() const { return *context_; }

 private:
  void lay_out_parameters(const Graph& graph, const NamePrefixes& frozen, bool trained, bool norms);

  std::vector<Parameter> parameters_;
  std::vector<std::size_t> model_order_;
  std::vector<StateBuffer> buffers_;
  std::unordered_map<std::string, std::size_t> parameter_index_;
  std::unordered_map<std::string, std::size_t> buffer_index_;
  std::size_t first_trained_norm_ = 0;
  std::size_t trained_count_ = 0;
  std::int64_t parameter_extent_ = 0;
  std::int64_t trained_extent_ = 0;
  std::int64_t buffer_extent_ = 0;
  std::int64_t ranks_;
  AnyContext* context_;
  DType weight_dtype_;
  Arena values_;
  Arena weights_;
  Arena gradients_;
  Arena buffers_arena_;
};

}  // namespace tandem
