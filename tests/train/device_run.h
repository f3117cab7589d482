#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/config_table.h"
#include "data/data_config.h"
#include "data/data_loader.h"
#include "data/distributed_sampler.h"
#include "device/memory.h"
#include "device/pinned_memory.h"
#include "parallel/self_communicator.h"
#include "train/checkpoints/checkpoint.h"
#include "train/small_run.h"
#include "train/step/device_input.h"
#include "train/step/replica.h"
#include "train/values.h"

namespace tandem {

/// small_run() with these settings, as "optimizer.lr=0.1".
inline RunConfig run_with(const std::vector<std::string>& settings) {
  const bool adamw = std::ranges::find(settings, "optimizer.kind=\"adamw\"") != settings.end();
  const std::string rate = "lr = 0.05\n";
  ConfigTable table = ConfigTable::from_text(
      small_run_text({}, adamw ? rate : rate + "momentum = 0.9\n"), "run.toml");
  for (const std::string& setting : settings) table.override_key(setting);
  return read_run_config(table);
}

/// One rank's training of smooth_graph() as a run does it: on a device with raw batches and results
/// that come a step late.
class SmallTraining {
 public:
  /// `spoil` changes what a device makes of raw batches.
  SmallTraining(const RunConfig& config, AnyContext& context,
                void (*spoil)(InputSpec& spec) = nullptr)
      : config_(config),
        context_(context),
        data_(std::move(open_datasets(config.data).train)),
        transform_(make_transform(config.data, true)),
        sampler_({.size = data_->size(),
                  .global_batch = config.global_batch,
                  .accumulate = config.accumulate,
                  .seed = config.seed}),
        loader_(*data_, transform_, training_batches(sampler_),
                {.batch = static_cast<int>(sampler_.micro_batch()),
                 .seed = config.seed,
                 .mix = config.data.mix,
                 .raw = !is_host(context),
                 .allocate = pinned_allocator(context),
                 .hold = is_host(context) ? 1 : DeviceInput::hold(config.accumulate)}),
        replica_(config_, smooth_graph(config, data_->classes()), sampler_.micro_batch(), context,
                 self_, self_, raw_input(spoil)) {
    replica_.broadcast_from_root();
  }

  /// Goes on from the step that the optimizer is at; returns whether all losses were finite.
  bool run(int steps) {
    const std::int64_t at = replica_.optimizer().steps_taken();
    loader_.start(
        sampler_.ordinal(at / sampler_.steps_per_epoch(), at % sampler_.steps_per_epoch()));
    const auto rate = static_cast<float>(config_.optimizer.learning_rate);
    for (int i = 0; i < steps && failed_step_ == 0; ++i) {
      take(replica_.step([this]() -> const Batch& { return *loader_.next(); }, rate, false));
    }
    // Of a failure that a step has told already nothing is left, as where training logs then.
    if (failed_step_ == 0) {
      take(replica_.settle());
    } else {
      EXPECT_EQ(replica_.settle().failed_step, 0);
    }
    return failed_step_ == 0;
  }

  Replica& replica() { return replica_; }
  const std::vector<double>& losses() const { return losses_; }  ///< of each step
  const std::vector<double>& norms() const { return norms_; }    ///< of the gradients, if clipped
  std::int64_t failed_step() const { return failed_step_; }

  std::vector<float> weights() { return of(replica_.store().all_values()); }
  std::vector<float> statistics() { return of(replica_.store().all_buffers()); }
  /// Of the weights, then of the statistics; empty without an average.
  std::vector<float> average() {
    if (replica_.average() == nullptr) return {};
    std::vector<float> all = of(replica_.average()->store().all_values());
    const std::vector<float> buffers = of(replica_.average()->store().all_buffers());
    all.insert(all.end(), buffers.begin(), buffers.end());
    return all;
  }
  std::vector<float> optimizer_state() {
    std::vector<float> all;
    for (const OptimizerState& state : replica_.optimizer().state()) {
      const std::vector<float> one = of(state.tensor);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  /// What a run that begins has in common with one that goes on.
  TrainingPosition position() const {
    return {.steps_per_epoch = sampler_.steps_per_epoch(),
            .early_stop_metric = config_.early_stop.metric,
            .seed = config_.seed,
            .global_batch = config_.global_batch,
            .samples = data_->size(),
            .model = config_.model};
  }

 private:
  std::optional<RawInput> raw_input(void (*spoil)(InputSpec& spec)) const {
    if (is_host(context_)) return std::nullopt;
    RawInput raw{loader_.raw_layout(), InputSpec(transform_)};
    if (spoil != nullptr) spoil(raw.spec);
    return raw;
  }

  void take(const StepResult& result) {
    failed_step_ = result.failed_step;
    if (failed_step_ != 0 || result.sums.samples == 0) return;
    losses_.push_back(result.sums.loss / static_cast<double>(result.sums.samples));
    if (result.gradient_norm) norms_.push_back(*result.gradient_norm);
  }

  std::vector<float> of(const Tensor& tensor) { return values_of(context_, tensor); }

  RunConfig config_;
  AnyContext& context_;
  SelfCommunicator self_;
  std::unique_ptr<Dataset> data_;
  Transform transform_;
  DistributedSampler sampler_;
  DataLoader loader_;
  Replica replica_;
  std::vector<double> losses_;
  std::vector<double> norms_;
  std::int64_t failed_step_ = 0;
};

}  // namespace tandem
