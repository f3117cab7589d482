#include "train/step/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <type_traits>

#include "base/error.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"
#include "graph/fusion.h"
#include "graph/step_plan_choice.h"
#include "parallel/gather_text.h"
#include "parallel/replica_check.h"
#include "parallel/shared_choices.h"
#include "tensor/host_tensor.h"
#include "train/norm_values.h"
#include "train/step/gradient_buckets.h"
#include "train/step/gradient_memory.h"
#include "train/step/non_finite.h"
#include "train/step/shared_state.h"
#include "train/step/too_large_step.h"

namespace tandem {
namespace {

/// The fused graph, once what the run file names is known to be there.
Graph prepared(const RunConfig& config, const Graph& graph) {
  config.freeze.check_against(graph, NamePrefixes::Names::parameters);
  config.init_skip.check_against(graph);
  const auto frozen = [&](const Node& node) {
    return std::ranges::all_of(node.parameters,
                               [&](const auto& name) { return config.freeze.match(name); });
  };
  if (!config.freeze.empty() && std::ranges::all_of(graph.nodes(), frozen)) {
    input_error("{}: every parameter of {} is frozen; leave some to train", config.freeze.place(),
                graph.name());
  }
  return fuse(graph);
}

/// Undefined where the store has none.
Tensor gradients_of(const ParameterStore& store, GradientMemory memory) {
  return memory == GradientMemory::passing ? Tensor() : store.all_gradients();
}

/// What the bucketer needs to compress gradients; empty where it does not.
Arena compression_scratch(const RunConfig& config, AnyContext& context,
                          const Communicator& reduction, std::span<const Bucket> buckets) {
  if (config.gradient_compression == GradientCompression::none) return {};
  const std::int64_t elements = bf16_scratch(reduction, buckets);
  if (elements == 0) return {};  // nothing travels
  return {context, static_cast<std::size_t>(elements) * size_of(DType::bf16),
          "compressed gradients"};
}

Tensor as_bf16(const Arena& scratch) {
  const auto elements = static_cast<std::int64_t>(scratch.bytes() / size_of(DType::bf16));
  return {scratch.data(), {elements}, DType::bf16};
}

std::vector<PlanEntry> plan_entries(const ParameterStore& store,
                                    const std::vector<Bucket>& buckets) {
  std::vector<PlanEntry> entries;
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    int bucket = store.is_trained(i) ? 0 : -1;
    while (bucket >= 0 && buckets[static_cast<std::size_t>(bucket)].last <= i) ++bucket;
    entries.push_back({.name = store.parameters()[i].name,
                       .shape = store.parameters()[i].shape,
                       .bucket = bucket});
  }
  for (const StateBuffer& buffer : store.buffers()) {
    entries.push_back({.name = buffer.name, .shape = buffer.shape});
  }
  return entries;
}

std::optional<WeightAverage> make_average(const RunConfig& config, const Graph& graph,
                                          AnyContext& context) {
  if (config.average.decay <= 0.0) return std::nullopt;
  return std::optional<WeightAverage>(std::in_place, graph, context, config.freeze, config.average,
                                      config.precision);
}

}  // namespace

Replica::Replica(const RunConfig& config, const Graph& graph, std::int64_t micro_batch,
                 AnyContext& context, Communicator& communicator)
    : Replica(config, graph, micro_batch, context, communicator, communicator) {}

Replica::Replica(const RunConfig& config, const Graph& graph, std::int64_t micro_batch,
                 AnyContext& context, Communicator& communicator, Communicator& reduction,
                 const std::optional<RawInput>& raw)
    : communicator_(communicator),
      raw_(raw),
      graph_(prepared(config, graph)),
      gradient_memory_(gradient_memory(config, communicator.size(), !is_host(context))),
      store_(graph_, context, gradient_memory_ != GradientMemory::passing, config.freeze,
             config.precision, ranks_with_statistics(config)),
      shared_(share_values(config, reduction, store_)),
      rank_sum_(config.sync_batch_norm ? std::make_unique<CommunicatorSum>(reduction) : nullptr),
      buckets_(gradient_buckets(config, store_, reduction.sum_cost(), gradient_memory_)),
      update_shares_(ShardedUpdate::shares(config, reduction, buckets_)),
      optimizer_(make_optimizer(config, store_, shared_, update_shares_)),
      average_(make_average(config, graph_, context)),
      compression_(compression_scratch(config, context, reduction, buckets_)),
      share_(measure_memory_share(communicator, context)),
      bucketer_(make_bucketer(config, micro_batch, reduction)) {
  if (update_shares_) {
    sharded_ = std::make_unique<ShardedUpdate>(reduction, store_, bucketer_, *update_shares_);
  }
  exchange_bytes_ = reduction.attached_bytes(store_.trained_values().elements());
  share_ = measure_memory_share(communicator, context);
  check_same_plan(communicator, plan_entries(store_, buckets_));
  store_.initialize(config.seed);
  if (shared_ != nullptr) communicator.barrier();  // nobody initialises what another goes on with
  plan_ = make_plan(config, micro_batch);
  if (average_) average_->start_from(store_);
  const StepParts parts{.config = config,
                        .input = graph_.input(),
                        .context = context,
                        .communicator = reduction,
                        .store = store_,
                        .plan = *plan_,
                        .optimizer = *optimizer_,
                        .average = average_ ? &*average_ : nullptr,
                        .bucketer = bucketer_,
                        .raw = raw_,
                        .shared = shared_,
                        .sharded = sharded_.get()};
  try {
    runner_ = std::visit([&](auto& device) { return make_step_runner(device, parts); }, context);
  } catch (const OutOfMemory& error) {
    refuse_too_large_step(config, micro_batch, plan_->activation_bytes() + error.bytes(),
                          state_bytes() + plan_->activation_bytes());
    throw;
  }
}

std::size_t Replica::runner_bytes(const RunConfig& config, std::int64_t micro_batch) const {
  if (!raw_) return 0;
  constexpr std::size_t graph_bytes = std::size_t{64} << 20U;  // an estimate, for the driver
  const Shape images = with_batch(graph_.input(), micro_batch);
  const std::size_t element = size_of(activation_dtype(config.precision));
  return graph_bytes + step_batch_bytes(raw_->layout.bytes(),
                                        element * static_cast<std::size_t>(images.elements()),
                                        config.accumulate);
}

StepPlanOptions Replica::plan_options(const RunConfig& config, std::int64_t micro_batch) {
  std::vector<ParameterRange> groups;
  if (gradient_memory_ == GradientMemory::passing) groups = groups_of(buckets_);
  return {.batch = micro_batch,
          .training = true,
          .precision = config.precision,
          .label_smoothing = config.label_smoothing,
          .accumulation = config.accumulate > 1,
          .gradient_memory = gradient_memory_,
          .gradient_groups = std::move(groups),
          .freeze_statistics = config.freeze_statistics,
          .rank_sum = rank_sum_.get(),
          .batch_groups = config.folded_ranks,
          .side_work = config.side_work,
          .norm_deferral = NormDeferral::by_timing,
          .room = share_ ? std::optional(share_->bytes) : std::nullopt,
          .reserve = runner_bytes(config, micro_batch),
          .after_layer = [this] { end_layer(); }};
}

GradientBucketer Replica::make_bucketer(const RunConfig& config, std::int64_t micro_batch,
                                        Communicator& reduction) {
  try {
    return {reduction, gradients_of(store_, gradient_memory_), slices_of(store_.trained()),
            buckets_, as_bf16(compression_)};
  } catch (const OutOfMemory& error) {
    const std::size_t allocated = state_bytes();
    exchange_bytes_ =
        std::max(error.bytes(), reduction.attached_bytes(store_.trained_values().elements()));
    refuse_too_large_step(config, micro_batch, 0, allocated);
    throw;
  }
}

std::unique_ptr<StepPlan> Replica::make_plan(const RunConfig& config, std::int64_t micro_batch) {
  try {
    std::unique_ptr<StepPlan> plan;
    choose_together(communicator_, kernel_choices(store_.context()), [&] {
      plan = make_step_plan(graph_, store_, store_.context(), plan_options(config, micro_batch));
    });
    return plan;
  } catch (const OutOfMemory& error) {
    refuse_too_large_step(config, micro_batch,
                          std::max(error.bytes(), activations_by_few(config, micro_batch)),
                          state_bytes());
    throw;
  }
}

std::size_t Replica::activations_by_few(const RunConfig& config, std::int64_t micro_batch) {
  const std::int64_t few = config.folded_ranks * std::max(32 / config.folded_ranks, 1);
  if (is_host(store_.context()) || micro_batch <= 2 * few) return 0;
  StepPlanOptions options = plan_options(config, few);
  options.norm_deferral = NormDeferral::as_of_many;
  options.norm_kernels = NormKernels::by_size;
  // Lending saves no more with many samples than the gradients take.
  if (gradient_memory_ == GradientMemory::lent) options.gradient_memory = GradientMemory::stored;
  const auto bytes_of = [&](std::int64_t samples) {
    options.batch = samples;
    return StepPlan(graph_, store_, store_.context(), options).activation_bytes();
  };
  try {
    // Gradients that pass, and some of the kernels' scratch, do not grow with the batch.
    const std::size_t of_few = bytes_of(few);
    const std::size_t more = std::max(bytes_of(2 * few), of_few) - of_few;
    return of_few +
           more * static_cast<std::size_t>(micro_batch - few) / static_cast<std::size_t>(few);
  } catch (const OutOfMemory&) {
    return 0;
  }
}

void Replica::refuse_too_large_step(const RunConfig& config, std::int64_t micro_batch,
                                    std::size_t activations, std::size_t allocated) const {
  std::optional<DeviceMemory> memory = device_memory(store_.context());
  if (!memory) return;
  const bool shared = share_ && share_->ranks > 1;
  // The other ranks have allocated too by now, each for itself; and what was allocated behind the
  // state is in the share.
  memory->free =
      shared ? share_->bytes + std::min(allocated, state_bytes()) : memory->free + allocated;
  throw InputError(too_large_step_text({.what = "a training step",
                                        .batch = micro_batch,
                                        .folded_ranks = config.folded_ranks,
                                        .state = state_bytes(),
                                        .activations = activations,
                                        .memory = *memory,
                                        .ranks = shared ? share_->ranks : 1}));
}

void Replica::end_layer() {
  communicator_.report_progress();
  if (observer_ != nullptr) observer_->ended(StepPart::layer);
}

void Replica::broadcast_from_root() {
  gather_shares();
  std::vector<Tensor> tensors{store_.all_values(), store_.all_buffers()};
  for (const OptimizerState& state : optimizer_->state()) tensors.push_back(state.tensor);
  if (average_) {
    tensors.push_back(average_->store().all_values());
    tensors.push_back(average_->store().all_buffers());
  }
  broadcast(tensors);
  if (std::optional<LossScale> scale = runner_->loss_scale()) {
    static_assert(std::is_trivially_copyable_v<LossScale>);
    communicator_.broadcast(Tensor(&*scale, {sizeof(LossScale)}, DType::u8), 0);
    runner_->set_loss_scale(*scale);
  }
  store_.share_buffers();
  store_.update_weights();
  if (average_) average_->store().update_weights();
}

void Replica::gather_shares() {
  if (has_all_shares_) return;
  sharded_->gather(store_.trained_values());
  for (const OptimizerState& state : optimizer_->state()) sharded_->gather(state.tensor);
  has_all_shares_ = true;
}

void Replica::prepare_evaluation() {
  gather_shares();
  std::vector<Tensor> tensors{store_.all_buffers()};
  if (average_) tensors.push_back(average_->store().all_buffers());
  broadcast(tensors);
  store_.share_buffers();
  evaluated_store().update_weights();
}

void Replica::broadcast(const std::vector<Tensor>& tensors) {
  if (communicator_.size() == 1) return;
  std::deque<HostTensor> hosts;
  std::vector<Tensor> host_tensors;
  host_tensors.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    host_tensors.push_back(hosts.emplace_back(store_.context(), tensor).tensor());
  }
  broadcast_state(communicator_, host_tensors);
  for (HostTensor& host : hosts) host.write_back();
}

std::size_t Replica::state_bytes() const {
  const Tensor weights = store_.all_weights();
  const bool rounded = weights.raw() != store_.all_values().raw();
  const std::size_t values = store_.all_values().bytes() + (rounded ? weights.bytes() : 0);
  return values * (average_ ? 2 : 1) + store_.buffers_of_ranks().bytes() +
         gradients_of(store_, gradient_memory_).bytes() +
         store_.trained_values().bytes() * optimizer_->state().size() + compression_.bytes() +
         exchange_bytes_;
}

void Replica::check_bits() {
  if (communicator_.size() == 1) return;
  if (!has_all_shares_) {
    sharded_->check_bits(communicator_);
    gather_shares();
    sharded_->check_rounding();
  }
  const std::vector<ParameterSlice> slices = slices_of(store_.parameters());
  const auto check = [&](const ParameterStore& store) {
    check_replicas(communicator_, hash_slices(store.context(), store.all_values(), slices), slices);
  };
  check(store_);
  if (average_) check(average_->store());
}

std::string Replica::non_finite_weights(std::int64_t step) {
  const Tensor sums = sharded_ == nullptr ? bucketer_.sums() : Tensor();
  std::string found = tandem::non_finite_weights(store_, step, sums);
  if (has_all_shares_) return found;
  // Each rank sees its share alone.
  std::int32_t somewhere = found.empty() ? 0 : 1;
  communicator_.all_reduce(Tensor(&somewhere, {1}, DType::i32), ReduceOp::max);
  if (somewhere == 0) return {};
  gather_shares();
  return tandem::non_finite_weights(store_, step, sums);
}

std::string Replica::explain_non_finite_loss() {
  gather_shares();
  const std::string found = runner_->explain_non_finite_loss();
  // Those of the first rank that has any: one fault reaches the other ranks through the gradients.
  for (const std::string& text : all_gather_text(communicator_, found)) {
    if (!text.empty()) return text;
  }
  return "the sum over the ranks overflowed";
}

}  // namespace tandem
