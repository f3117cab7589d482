#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_loader.h"
#include "device/any_context.h"
#include "device/arena.h"
#include "graph/graph.h"
#include "graph/parameters.h"
#include "graph/step_plan.h"
#include "optim/optimizer.h"
#include "parallel/gradient_bucketer.h"
#include "train/run_config.h"
#include "train/step/communicator_sum.h"
#include "train/step/memory_share.h"
#include "train/step/sharded_update.h"
#include "train/step/step_runner.h"
#include "train/step/weight_average.h"

namespace tandem {

/// One data-parallel replica: model, gradients, optimizer and their reduction over the ranks.
/// It lies in the memory of the context that it is given, and so does what the ranks reduce.
class Replica {
 public:
  /// Collective. Lays out and initialises the model (by seed, the same on every rank), chooses
  /// kernels (parallel/shared_choices.h), checks that all ranks have the same plan. `communicator`
  /// takes host memory, `reduction` the context's: the same ranks, and the same object on the CPU.
  /// Context and communicators outlive it. `raw`: what batches are where the context is a device,
  /// which takes raw ones. Throws InputError where train.freeze or train.init_skip names nothing of
  /// the model, or nothing is left to train.
  Replica(const RunConfig& config, const Graph& graph, std::int64_t micro_batch,
          AnyContext& context, Communicator& communicator, Communicator& reduction,
          const std::optional<RawInput>& raw = {});
  /// With one communicator for both.
  Replica(const RunConfig& config, const Graph& graph, std::int64_t micro_batch,
          AnyContext& context, Communicator& communicator);

  /// Collective: rank 0's parameters, buffers, optimizer state, averages and loss scale to all
  /// ranks.
  void broadcast_from_root();
  /// Collective: where each rank updates a share (train/step/sharded_update.h), all values and
  /// optimizer state to all ranks. After a step store() and optimizer() are not whole before; what
  /// reads them for all ranks begins with it, as the functions below do.
  void gather_shares();
  /// Collective, before an evaluation: rank 0's running statistics to all ranks. In training each
  /// rank keeps its own, as torch's DistributedDataParallel does; rank 0's are the model's.
  void prepare_evaluation();
  /// Collective: throws where parameters or averages differ between ranks in any bit.
  void check_bits();

  /// Collective: one optimizer step; see StepRunner::step().
  StepResult step(const NextBatch& next_batch, float learning_rate, bool stop_requested) {
    has_all_shares_ = sharded_ == nullptr;
    return runner_->step(next_batch, learning_rate, stop_requested);
  }
  /// From the next step on `observer` is told the moments of this rank's steps, until
  /// observe(null). Not while a step is under way: settle() before.
  void observe(StepObserver* observer) {
    observer_ = observer;
    runner_->observe(observer);
  }
  /// Waits for the steps that are under way and returns what they did.
  StepResult settle() { return runner_->settle(); }
  /// Collective: see StepRunner::settle_together().
  StepResult settle_together() { return runner_->settle_together(); }

  /// Collective: what tandem::non_finite_weights() says of the weights after step `step`, the same
  /// on every rank.
  std::string non_finite_weights(std::int64_t step);
  /// Collective, after a step whose loss is not finite: where that came from, as a phrase for a
  /// message, the same on every rank. Runs the layers again.
  std::string explain_non_finite_loss();

  /// See StepRunner.
  std::optional<LossScale> loss_scale() const { return runner_->loss_scale(); }
  void set_loss_scale(const LossScale& scale) { runner_->set_loss_scale(scale); }

  const Graph& graph() const { return graph_; }
  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// Whether each rank updates a share (train/step/sharded_update.h).
  bool updates_shares() const { return sharded_ != nullptr; }
  /// Whether weights are updated, bucket after bucket, before backward ends.
  bool updates_in_backward() const {
    return updates_shares() || gradient_memory_ == GradientMemory::passing;
  }
  /// Null without train.ema_decay.
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  /// What is evaluated: the average where there is one.
  ParameterStore& evaluated_store() { return average_ ? average_->store() : store_; }
  /// Bytes of parameters, gradients, optimizer state and averages, and of what exchanging gradients
  /// takes beside them, of which only this rank's part where ranks share it; values and optimizer
  /// state count in full for each rank that shares them.
  std::size_t state_bytes() const;

  const StepPlan& plan() const { return *plan_; }
  GradientBucketer& bucketer() { return bucketer_; }
  const GradientBucketer& bucketer() const { return bucketer_; }

 private:
  /// What a device's runner takes beside the plan, about.
  std::size_t runner_bytes(const RunConfig& config, std::int64_t micro_batch) const;
  StepPlanOptions plan_options(const RunConfig& config, std::int64_t micro_batch);
  std::unique_ptr<StepPlan> make_plan(const RunConfig& config, std::int64_t micro_batch);
  /// Bytes of activations for so many samples, by what plans for a few of them take: what kernels
  /// need is known only once they are chosen. 0 where that cannot be told.
  std::size_t activations_by_few(const RunConfig& config, std::int64_t micro_batch);
  /// Throws InputError where the device has not the memory for what exchanging gradients takes.
  GradientBucketer make_bucketer(const RunConfig& config, std::int64_t micro_batch,
                                 Communicator& reduction);
  /// Throws InputError that a step does not fit, where the context is a device; of a host's memory
  /// not that much is known, and it returns. `allocated`: bytes that this replica holds already.
  void refuse_too_large_step(const RunConfig& config, std::int64_t micro_batch,
                             std::size_t activations, std::size_t allocated) const;
  void broadcast(const std::vector<Tensor>& tensors);
  void end_layer();

  Communicator& communicator_;
  StepObserver* observer_ = nullptr;
  std::optional<RawInput> raw_;
  Graph graph_;
  GradientMemory gradient_memory_;
  ParameterStore store_;
  SharedDevice* shared_;  // null unless the ranks of a device share their state
  std::unique_ptr<CommunicatorSum> rank_sum_;  // null without synchronised batch normalisation
  std::vector<Bucket> buckets_;
  std::optional<std::vector<ArenaRange>>
      update_shares_;  // of this rank, where each updates a share
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<WeightAverage> average_;
  Arena compression_;               // bf16 copies of gradients under way; empty without compression
  std::size_t exchange_bytes_ = 0;  // a part of state_bytes()
  std::optional<MemoryShare> share_;  // of a device's memory, once the state so far has its own
  // Both are made behind the bucketer, to have what that leaves, but destroyed after it: freeing
  // waits for the device, which after an error goes on only once the bucketer has given the ranks
  // up.
  std::unique_ptr<StepPlan> plan_;
  std::unique_ptr<StepRunner> runner_;
  GradientBucketer bucketer_;
  std::unique_ptr<ShardedUpdate> sharded_;  // null unless each rank updates a share
  bool has_all_shares_ = true;  // of values and optimizer state, as they are on other ranks
};

}  // namespace tandem
