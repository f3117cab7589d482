#include "train/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/fusion.h"
#include "parallel/gather_text.h"
#include "parallel/replica_check.h"
#include "tensor/finite.h"
#include "train/non_finite.h"

namespace tandem {
namespace {

/// The fused graph, once what the run file names is known to be there.
Graph prepared(const RunConfig& config, const Graph& graph) {
  config.freeze.check_against(graph);
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

std::vector<ParameterSlice> slices_of(std::span<const Parameter> parameters) {
  std::vector<ParameterSlice> slices;
  for (const Parameter& parameter : parameters) {
    slices.push_back({parameter.name, parameter.offset, parameter.shape.elements()});
  }
  return slices;
}

std::vector<ParameterGroupSlice> group_slices(const OptimizerConfig& config,
                                              const ParameterStore& store) {
  std::vector<ParameterGroupSlice> slices;
  for (const Parameter& parameter : store.trained()) {
    slices.push_back(config.slice(parameter.offset, parameter.shape.elements(),
                                  parameter.role != ParameterRole::weight));
  }
  return slices;
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

}  // namespace

Replica::Replica(const RunConfig& config, const Graph& graph, std::int64_t micro_batch,
                 AnyContext& context, Communicator& communicator)
    : communicator_(communicator),
      accumulate_(config.accumulate),
      seed_(config.seed),
      clip_norm_(config.optimizer.clip_norm),
      graph_(prepared(config, graph)),
      store_(graph_, context, true, config.freeze),
      rank_sum_(config.sync_batch_norm ? std::make_unique<CommunicatorSum>(communicator) : nullptr),
      plan_(graph_, store_, context,
            {.batch = micro_batch,
             .training = true,
             .label_smoothing = config.label_smoothing,
             .accumulation = config.accumulate > 1,
             .freeze_statistics = config.freeze_statistics,
             .rank_sum = rank_sum_.get(),
             .after_layer = [&communicator] { communicator.still_working(); }}),
      optimizer_(make_optimizer(config.optimizer, context, store_.all_gradients().elements(),
                                group_slices(config.optimizer, store_))),
      gradient_norm_(context, group_slices(config.optimizer, store_)),
      bucketer_(communicator, store_.all_gradients(), slices_of(store_.trained()),
                {.first_bytes = config.first_bucket_bytes, .bytes = config.bucket_bytes}) {
  check_same_plan(communicator, plan_entries(store_, bucketer_.buckets()));
  store_.initialize(config.seed);
  if (config.average.decay > 0.0) {
    average_.emplace(graph_, context, config.freeze, config.average);
    average_->start_from(store_);
  }
}

void Replica::broadcast_from_root() {
  std::vector<Tensor> tensors{store_.all_values(), store_.all_buffers()};
  for (const OptimizerState& state : optimizer_->state()) tensors.push_back(state.tensor);
  if (average_) {
    tensors.push_back(average_->store().all_values());
    tensors.push_back(average_->store().all_buffers());
  }
  broadcast_state(communicator_, tensors);
}

void Replica::broadcast_buffers() {
  std::vector<Tensor> tensors{store_.all_buffers()};
  if (average_) tensors.push_back(average_->store().all_buffers());
  broadcast_state(communicator_, tensors);
}

std::size_t Replica::state_bytes() const {
  const std::size_t values = store_.all_values().bytes();
  return values * (average_ ? 2 : 1) +
         store_.all_gradients().bytes() * (1 + optimizer_->state().size());
}

void Replica::check_bits() {
  const std::vector<ParameterSlice> slices = slices_of(store_.parameters());
  check_replicas(communicator_, store_.all_values(), slices);
  if (average_) check_replicas(communicator_, average_->store().all_values(), slices);
}

StepResult Replica::step(const NextBatch& next_batch, float learning_rate, bool stop_requested) {
  LossSums mine;
  for (int micro = 0; micro < accumulate_; ++micro) {
    const Batch& batch = next_batch();
    batch_ = &batch;
    const Targets targets{.labels = batch.labels,
                          .second_labels = batch.second_labels,
                          .weights = batch.label_weights};
    mine += plan_.forward(batch.images, targets, batch.valid, random_of(micro));
    if (!std::isfinite(mine.loss)) keep_failing(batch, micro);
    const bool last = micro + 1 == accumulate_;
    if (last) begin_reduction(mine, stop_requested);
    backward(micro > 0, last);
  }
  return finish_step(learning_rate);
}

StepRandom Replica::random_of(int micro) const {
  const std::int64_t world = communicator_.size();
  const std::int64_t part =
      (optimizer_->steps_taken() * accumulate_ + micro) * world + communicator_.rank();
  return {.seed = seed_, .first_sample = static_cast<std::uint64_t>(part * plan_.batch())};
}

void Replica::begin_reduction(const LossSums& mine, bool stop_requested) {
  statistics_ = {static_cast<float>(mine.loss), static_cast<float>(mine.samples),
                 static_cast<float>(mine.top1), static_cast<float>(mine.top5),
                 stop_requested ? 1.0F : 0.0F};
  const Tensor tensor(statistics_.data(), {static_cast<std::int64_t>(statistics_.size())});
  statistics_request_ = communicator_.all_reduce_async(tensor, ReduceOp::sum);
  bucketer_.begin_step();
}

void Replica::backward(bool accumulate, bool last) {
  plan_.backward(accumulate, [&](std::span<const std::size_t> parameters) {
    if (!last) return;
    for (const std::size_t parameter : parameters) bucketer_.ready(parameter);
    bucketer_.progress();
  });
}

StepResult Replica::finish_step(float learning_rate) {
  bucketer_.finish();
  statistics_request_->wait();
  if (!std::isfinite(statistics_[0])) return result();
  // Each micro-batch's gradient is of its own mean; the step's is of the mean over all of them.
  const auto parts = static_cast<float>(communicator_.size() * accumulate_);
  UpdateSettings settings{.learning_rate = learning_rate, .gradient_scale = 1.0F / parts};
  std::optional<double> norm;
  if (clip_norm_ > 0.0) {
    norm = gradient_norm_.measure(store_.all_gradients()) / static_cast<double>(parts);
    settings.gradient_scale *= static_cast<float>(clip_factor(*norm, clip_norm_));
  }
  optimizer_->step(store_.trained_values(), store_.all_gradients(), settings);
  if (average_) average_->update(store_, optimizer_->steps_taken());
  return result(norm);
}

StepResult Replica::result(std::optional<double> norm) const {
  const auto count = [&](std::size_t i) { return static_cast<std::int64_t>(statistics_[i]); };
  return {.sums = {.loss = static_cast<double>(statistics_[0]),
                   .samples = count(1),
                   .top1 = count(2),
                   .top5 = count(3)},
          .stop = statistics_[4] > 0.0F,
          .gradient_norm = norm};
}

void Replica::keep_failing(const Batch& batch, int micro) {
  if (!failing_images_.empty()) return;
  const std::span<const float> images = batch.images.span<float>();
  failing_images_.assign(images.begin(), images.end());
  failing_micro_ = micro;
  // Now, while the gradients of the step before are there.
  failing_weights_ = non_finite_weights(store_, optimizer_->steps_taken());
}

std::string Replica::explain_non_finite_loss() {
  const bool mine = !failing_images_.empty();
  const Shape& shape = batch_->images.shape();
  const Tensor images = mine ? Tensor(failing_images_.data(), shape) : batch_->images;
  std::string found = failing_weights_;
  const std::optional<std::string> layer =
      plan_.first_non_finite_layer(images, random_of(failing_micro_));
  if (mine && found.empty()) {
    const std::string rank =
        communicator_.size() > 1 ? fmt::format(" on rank {}", communicator_.rank()) : "";
    found = !all_finite(images) ? fmt::format("first so are images of the batch{}", rank)
            : layer ? fmt::format("first so is the output of layer '{}'{}", *layer, rank)
                    : fmt::format("the model's output is finite{}", rank);
  }
  // Those of the first rank that has any: one fault reaches the other ranks through the gradients.
  for (const std::string& text : all_gather_text(communicator_, found)) {
    if (!text.empty()) return text;
  }
  return "the sum over the ranks overflowed";
}

}  // namespace tandem
