#include "graph/step_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"
#include "graph/gradient_groups.h"
#include "graph/lent_gradients.h"
#include "graph/memory_plan.h"
#include "graph/step_plan_step.h"

namespace tandem {

/// Decides lifetimes, places buffers and binds tensors. Ticks: layer i runs forward at i, the loss
/// at n, layer i backward at 2n - i. What layer i computes aside goes on for side_lag ticks more.
class StepPlan::Builder {
 public:
  Builder(const Graph& graph, ParameterStore& store, AnyContext& context,
          const StepPlanOptions& options)
      : graph_(graph),
        store_(store),
        context_(context),
        options_(options),
        count_(static_cast<int>(graph.nodes().size())),
        steps_(graph.nodes().size()) {
    TANDEM_CHECK(count_ > 0, "a model without layers");
    TANDEM_CHECK(options.gradient_memory == GradientMemory::stored ||
                     (options.training && !options.accumulation),
                 "only training without accumulation shares the gradients' memory");
    TANDEM_CHECK(!lends() || options.spare.empty(),
                 "a plan takes lent gradients or spare memory, not both");
    const std::int64_t apart = options.rank_sum == nullptr ? options.batch_groups : 1;
    TANDEM_CHECK(!options.training || store.ranks() == apart,
                 "buffers of {} ranks for the statistics of {}", store.ranks(), apart);
    check_gradient_groups(options.gradient_groups, passes() ? store.trained().size() : 0);
  }

  std::size_t least_bytes(Kernels kernels) {
    if (options_.training) {
      find_backward();
      find_writers();
    }
    if (kernels == Kernels::of_any_device) {
      for (Writer& writer : writers_) writer.by_temporary = false;
      kernels_read_outputs_ = false;
    }
    return bytes_of_tensors();
  }

  void build(StepPlan& plan) {
    if (options_.training) {
      find_backward();
      find_writers();
      open_side_queue();
    }
    require_room();
    prepare_kernels();
    request_tensors();
    request_working_memory();
    request(softmax_cross_entropy_scratch(options_.batch), count_, count_,
            [&plan](std::byte* place) { plan.loss_scratch_ = place; });
    place_buffers(plan);
    bind_inputs();
    bind_parameters();
    plan.buffers_apart_ = store_.buffers_apart();
    plan.loss_gradient_ = steps_.back().output_gradient;
    if (runs_aside()) plan.side_ = side_;
    plan.steps_ = std::move(steps_);
    plan.gradient_groups_ = std::move(groups_);
  }

 private:
  int backward_tick(int node) const { return 2 * count_ - node; }
  /// When the last of a layer's backward pass is done.
  int end_tick(int node) {
    return backward_tick(node) + (step(node).aside ? static_cast<int>(side_lag) : 0);
  }
  /// When Progress has told of a layer: behind what goes on aside, where anything does.
  int told_tick(int node) const {
    return backward_tick(node) + (runs_aside() ? static_cast<int>(side_lag) : 0);
  }
  bool runs_aside() const { return std::ranges::find(steps_, true, &Step::aside) != steps_.end(); }
  bool lends() const { return options_.gradient_memory == GradientMemory::lent; }
  bool passes() const { return options_.gradient_memory == GradientMemory::passing; }
  const Node& node(int index) const { return graph_.nodes()[static_cast<std::size_t>(index)]; }
  Step& step(int index) { return steps_[static_cast<std::size_t>(index)]; }

  void request(std::size_t bytes, int first, int last, std::function<void(std::byte*)> target,
               int aside_last = -1) {
    if (bytes == 0) return;
    lifetimes_.push_back({.bytes = bytes, .first = first, .last = last, .aside_last = aside_last});
    targets_.push_back(std::move(target));
  }
  void request_tensor(const Shape& shape, DType dtype, int first, int last,
                      std::function<void(const Tensor&)> target, int aside_last = -1) {
    const Tensor unplaced(nullptr, shape, dtype);
    request(
        unplaced.bytes(), first, last,
        [shape, dtype, target = std::move(target)](std::byte* place) {
          target(Tensor(place, shape, dtype));
        },
        aside_last);
  }
  DType dtype() const { return activation_dtype(options_.precision); }

  /// Before kernels are timed, which takes its time, on a device whose memory even the tensors do
  /// not fit.
  void require_room() {
    const std::optional<DeviceMemory> memory = device_memory(context_);
    if (!memory) return;
    const std::size_t bytes = bytes_of_tensors();
    const std::size_t room = options_.room.value_or(memory->free);
    if (bytes <= room) return;
    throw OutOfMemory(
        fmt::format("{} needs at least {}, {} are free on {}; use a smaller batch or model",
                    purpose(), format_bytes(bytes), format_bytes(room), memory->device),
        bytes);
  }
  /// At least: kernels that compute aside make some live longer, so that they are asked for again.
  std::size_t bytes_of_tensors() {
    request_tensors();
    const LentMemory loan = lent();
    const std::size_t bytes =
        loan.bytes == 0 ? least_memory(lifetimes_) : plan_memory(lifetimes_, loan).bytes;
    lifetimes_.clear();
    targets_.clear();
    return bytes;
  }
  void request_tensors() {
    request_activations();
    if (options_.training) request_gradients();
  }
  /// Backward writes a layer's gradients from its tick on, aside too, and what reads them comes
  /// behind all ticks.
  LentMemory lent() const {
    if (!lends()) return {.bytes = options_.spare.size(), .kept = {}};
    std::vector<int> written(store_.trained().size());
    for (int i = 0; i < count_; ++i) {
      for (const std::string& name : node(i).parameters) {
        const std::size_t index = store_.parameter_index(name);
        if (store_.is_trained(index)) written[index] = backward_tick(i);
      }
    }
    return lent_gradients(store_, written, backward_tick(0) + static_cast<int>(side_lag));
  }
  void place_buffers(StepPlan& plan) {
    const MemoryPlan memory = plan_memory(lifetimes_, lent());
    if (memory.bytes > 0) plan.memory_ = Arena(context_, memory.bytes, purpose());
    std::byte* lent = options_.spare.data();
    if (lends() && memory.lent_bytes > 0) {
      lent = static_cast<std::byte*>(store_.all_gradients().raw());
    }
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const std::size_t offset = memory.offsets[i];
      targets_[i](offset < memory.lent_bytes ? lent + offset
                                             : plan.memory_.data() + (offset - memory.lent_bytes));
    }
  }
  const char* purpose() const {
    return options_.training ? "a training step" : "an evaluation step";
  }

  /// Which layers backward must reach.
  void find_backward() {
    for (int i = 0; i < count_; ++i) {
      for (const std::string& name : node(i).parameters) {
        step(i).trained.push_back(store_.is_trained(store_.parameter_index(name)));
        if (step(i).trained.back()) step(i).backward = true;
      }
      for (const int input : node(i).inputs) {
        if (wants_gradient(input)) step(i).backward = true;
      }
    }
    TANDEM_CHECK(steps_.back().backward, "no parameter of {} is trained", graph_.name());
  }
  bool wants_gradient(int input) {
    return options_.training && input != Node::model_input && step(input).backward;
  }

  /// Backward runs from the last node to the first: of a value's readers the last one writes its
  /// gradient, the others add to it.
  void find_writers() {
    std::vector<bool> written(static_cast<std::size_t>(count_), false);
    for (int i = count_ - 1; i >= 0; --i) {
      const std::vector<int>& inputs = node(i).inputs;
      for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
        if (!wants_gradient(inputs[slot])) continue;
        const auto value = static_cast<std::size_t>(inputs[slot]);
        const bool adds = written[value];
        written[value] = true;
        // A kernel may load what it adds to before it stores anything, its own other part too.
        const auto here = inputs.begin() + static_cast<std::ptrdiff_t>(slot);
        const bool own = std::find(inputs.begin(), here, inputs[slot]) != here;
        const bool by_temporary = adds && (own || !node(i).layer->can_add_to(slot, context_));
        writers_.push_back({i, slot, inputs[slot], adds, by_temporary});
      }
    }
  }

  void open_side_queue() {
    if (options_.side_work == SideWork::never) return;
    side_ = options_.side_queue;
    if (side_ == nullptr) side_ = make_side_queue(context_, steps_.size());
  }

  /// Whether a layer may compute gradients of its parameters aside. The last one that backward
  /// reaches has nothing to do so beside.
  bool may_split(int i, const KernelRequest& request) {
    const auto last = std::ranges::find(steps_, true, &Step::backward);
    if (side_ == nullptr || !step(i).backward || &step(i) == &*last) return false;
    if (options_.side_work == SideWork::always) return true;
    const std::int64_t elements = node(i).layer->split_elements(request.inputs, request.output);
    return static_cast<std::size_t>(elements) * size_of(dtype()) <= side_->cache_bytes();
  }

  /// Whether all that a normalisation learns is frozen, its statistics then with it.
  bool has_fixed_statistics(int i) const {
    if (!options_.training || !options_.freeze_statistics) return false;
    bool normalises = false;
    for (const std::string& name : node(i).parameters) {
      const std::size_t index = store_.parameter_index(name);
      if (store_.parameters()[index].role != ParameterRole::norm) continue;
      if (store_.is_trained(index)) return false;
      normalises = true;
    }
    return normalises;
  }

  void prepare_kernels() {
    std::vector<KernelRequest> requests(steps_.size());
    for (int i = 0; i < count_; ++i) {
      const auto index = static_cast<std::size_t>(i);
      requests[index] = {.inputs = graph_.input_shapes(index, options_.batch),
                         .output = graph_.output_shape(index, options_.batch),
                         .training = options_.training,
                         .precision = options_.precision,
                         .input_gradients = std::vector<bool>(node(i).inputs.size(), false),
                         .adds = std::vector<bool>(node(i).inputs.size(), false),
                         .name = node(i).name,
                         .parameter_gradients = step(i).trained,
                         .fixed_statistics = has_fixed_statistics(i),
                         .rank_sum = options_.training ? options_.rank_sum : nullptr,
                         .batch_groups = options_.batch_groups,
                         .norm_kernels = options_.norm_kernels};
      requests[index].split_backward = may_split(i, requests[index]);
    }
    for (const Writer& writer : writers_) {
      KernelRequest& request = requests[static_cast<std::size_t>(writer.node)];
      request.input_gradients[writer.slot] = true;
      request.adds[writer.slot] = writer.adds && !writer.by_temporary;
    }
    const std::vector<int> left_to =
        defer_norms(graph_, context_, options_.norm_deferral, requests);
    for (int i = 0; i < count_; ++i) {
      step(i).name = node(i).name;
      step(i).kernel = node(i).layer->prepare(context_, requests[static_cast<std::size_t>(i)]);
      step(i).aside = step(i).kernel->splits_backward();
      step(i).norm_left_to = left_to[static_cast<std::size_t>(i)];
      step(i).inputs.resize(node(i).inputs.size());
      step(i).input_gradients.resize(node(i).inputs.size());
      step(i).add_into.resize(node(i).inputs.size());
      if (options_.after_layer) options_.after_layer();
    }
  }

  /// Before kernels are made, of a device: no, for what is needed at least.
  bool may_read_output(int i) {
    const LayerKernel* kernel = step(i).kernel.get();
    return kernel != nullptr ? kernel->reads_output() : kernels_read_outputs_;
  }

  /// An output lives until its last reader: a later layer, the loss, or a backward pass.
  void request_activations() {
    std::vector<int> last(static_cast<std::size_t>(count_));
    for (int i = 0; i < count_; ++i) {
      const BackwardNeeds needs = node(i).layer->backward_needs();
      const bool backward = step(i).backward;
      // What a normalisation was left with is its input, which backward reads.
      const bool kept =
          backward && ((needs.output && may_read_output(i)) || step(i).norm_left_to >= 0);
      last[static_cast<std::size_t>(i)] = kept ? backward_tick(i) : i;
      for (std::size_t slot = 0; slot < node(i).inputs.size(); ++slot) {
        const int input = node(i).inputs[slot];
        if (input == Node::model_input) continue;
        int& end = last[static_cast<std::size_t>(input)];
        end = std::max(end, backward && needs.input(slot) ? end_tick(i) : i);
      }
    }
    // The logits stay readable after backward.
    last.back() = options_.training ? 2 * count_ : count_;
    for (int i = 0; i < count_; ++i) {
      request_tensor(graph_.output_shape(static_cast<std::size_t>(i), options_.batch), dtype(), i,
                     last[static_cast<std::size_t>(i)],
                     [this, i](const Tensor& tensor) { step(i).output = tensor; });
    }
  }

  /// A gradient lives from the first of its writers, the last reader of the value, to the backward
  /// pass of the layer that made the value. Layers that cannot add write a temporary that is added.
  void request_gradients() {
    std::vector<int> first(static_cast<std::size_t>(count_), -1);
    first.back() = count_;
    for (const Writer& writer : writers_) {
      const int tick = backward_tick(writer.node);
      if (!writer.adds) first[static_cast<std::size_t>(writer.input)] = tick;
      if (!writer.by_temporary) continue;
      request_tensor(graph_.output_shape(static_cast<std::size_t>(writer.input), options_.batch),
                     dtype(), tick, tick, [this, writer](const Tensor& tensor) {
                       step(writer.node).input_gradients[writer.slot] = tensor;
                     });
    }
    for (int i = 0; i < count_; ++i) {
      if (!step(i).backward) continue;
      const int start = first[static_cast<std::size_t>(i)];
      TANDEM_CHECK(start >= 0, "layer '{}' feeds nothing", node(i).name);
      request_tensor(graph_.output_shape(static_cast<std::size_t>(i), options_.batch), dtype(),
                     start, end_tick(i),
                     [this, i](const Tensor& tensor) { step(i).output_gradient = tensor; });
    }
  }

  void request_working_memory() {
    for (int i = 0; i < count_; ++i) {
      const KernelMemory memory = step(i).kernel->memory();
      const int back = backward_tick(i);
      request(memory.saved, i, step(i).backward ? back : i,
              [this, i](std::byte* place) { step(i).saved = place; });
      request_output_norm(i, memory.output_norm);
      request(memory.forward_scratch, i, i,
              [this, i](std::byte* place) { step(i).forward_scratch = place; });
      if (!step(i).backward) continue;
      request(memory.backward_scratch, back, back,
              [this, i](std::byte* place) { step(i).backward_scratch = place; });
      request(memory.handed_on, back, end_tick(i),
              [this, i](std::byte* place) { step(i).handed_on = place; });
      request(
          memory.weights_scratch, back, end_tick(i),
          [this, i](std::byte* place) { step(i).weights_scratch = place; },
          step(i).aside ? back : -1);
      request_parameter_gradients(i);
    }
    request_gradient_groups();
  }

  void request_gradient_groups() {
    const std::vector<GradientGroup> groups =
        gradient_groups(store_, options_.gradient_groups, owners_);
    groups_.resize(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const GradientGroup& group = groups[g];
      step(group.lowest).ends_group = true;
      request_tensor(
          {group.elements}, DType::f32, backward_tick(group.highest), told_tick(group.lowest),
          [this, g, group](const Tensor& tensor) { place_group(g, group.offset, tensor); },
          group.aside ? backward_tick(group.lowest) : -1);
    }
  }
  void place_group(std::size_t g, std::int64_t offset, const Tensor& tensor) {
    groups_[g] = tensor;
    const ParameterRange range = options_.gradient_groups[g];
    for (std::size_t p = range.first; p < range.last; ++p) {
      const Parameter& parameter = store_.trained()[p];
      step(owners_[p].node).gradients[owners_[p].place] =
          Tensor(tensor.data<float>() + (parameter.offset - offset), parameter.shape);
    }
  }

  /// The table that goes with an output whose normalisation is left to its reader: both read it.
  void request_output_norm(int i, std::size_t bytes) {
    const int reader = step(i).norm_left_to;
    if (reader < 0) return;
    const int own = step(i).backward ? backward_tick(i) : i;
    const int readers = step(reader).backward ? end_tick(reader) : reader;
    request(bytes, i, std::max(own, readers), [this, i, reader](std::byte* place) {
      step(i).output_norm = step(reader).input_norm = place;
    });
  }

  /// Where gradients go that do not go into the store.
  void request_parameter_gradients(int i) {
    const int back = backward_tick(i);
    const int end = end_tick(i);
    const std::vector<std::string>& names = node(i).parameters;
    step(i).gradients.resize(names.size());
    step(i).partial_gradients.resize(names.size());
    for (std::size_t p = 0; p < names.size(); ++p) {
      const std::size_t index = store_.parameter_index(names[p]);
      const Shape& shape = store_.parameters()[index].shape;
      if (!step(i).trained[p]) {
        request_tensor(shape, DType::f32, back, end, [this, i, p](const Tensor& tensor) {
          step(i).gradients[p] = step(i).partial_gradients[p] = tensor;
        });
        continue;
      }
      if (passes()) {
        owners_.resize(store_.trained().size());
        owners_[index] = {
            .node = i, .place = p, .aside = step(i).aside && step(i).kernel->leaves_gradient(p)};
        continue;
      }
      step(i).gradients[p] = store_.gradient(index);
      if (!options_.accumulation) continue;
      request_tensor(shape, DType::f32, back, end,
                     [this, i, p](const Tensor& tensor) { step(i).partial_gradients[p] = tensor; });
    }
  }

  void bind_inputs() {
    for (int i = 0; i < count_; ++i) {
      for (std::size_t slot = 0; slot < node(i).inputs.size(); ++slot) {
        const int input = node(i).inputs[slot];
        if (input == Node::model_input) {
          step(i).model_inputs.push_back(slot);
        } else {
          step(i).inputs[slot] = step(input).output;
        }
      }
    }
    for (const Writer& writer : writers_) {
      const Tensor& gradient = step(writer.input).output_gradient;
      Step& at = step(writer.node);
      (writer.by_temporary ? at.add_into : at.input_gradients)[writer.slot] = gradient;
    }
  }

  void bind_parameters() {
    for (int i = 0; i < count_; ++i) {
      for (const std::string& name : node(i).parameters) {
        const std::size_t index = store_.parameter_index(name);
        step(i).parameters.push_back(store_.value(index));
        step(i).weights.push_back(store_.weight(index));
        if (store_.is_trained(index)) step(i).parameter_indices.push_back(index);
      }
      for (const std::string& name : node(i).buffers) {
        step(i).buffers.push_back(store_.buffer(name));
      }
    }
  }

  /// One input of a node whose gradient backward makes, in backward's order.
  struct Writer {
    int node;
    std::size_t slot;
    int input;
    bool adds;          // to what another reader of the value wrote
    bool by_temporary;  // which the plan adds, for layers that only overwrite
  };

  const Graph& graph_;
  ParameterStore& store_;
  AnyContext& context_;
  const StepPlanOptions& options_;
  int count_;
  std::vector<Step> steps_;
  std::shared_ptr<SideQueue> side_;
  bool kernels_read_outputs_ = is_host(context_);
  std::vector<Writer> writers_;
  std::vector<GradientOwner> owners_;  // of passing gradients, by trained parameter
  std::vector<Tensor> groups_;
  std::vector<BufferLifetime> lifetimes_;
  std::vector<std::function<void(std::byte*)>> targets_;
};

StepPlan::StepPlan(const Graph& graph, ParameterStore& parameters, AnyContext& context,
                   const StepPlanOptions& options)
    : options_(options), context_(&context) {
  TANDEM_CHECK(options.batch >= 1, "a batch of {}", options.batch);
  // Primitives are made for the thread count at their making and run best on the same.
  std::visit([](const auto& device) { device.activate(); }, context);
  Builder(graph, parameters, context, options).build(*this);
}

StepPlan::~StepPlan() = default;

std::size_t StepPlan::least_activation_bytes(const Graph& graph, ParameterStore& parameters,
                                             AnyContext& context, const StepPlanOptions& options,
                                             Kernels kernels) {
  return Builder(graph, parameters, context, options).least_bytes(kernels);
}

}  // namespace tandem
