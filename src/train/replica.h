#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/data_loader.h"
#include "device/any_context.h"
#include "graph/graph.h"
#include "graph/parameters.h"
#include "graph/step_plan.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"
#include "parallel/gradient_bucketer.h"
#include "train/communicator_sum.h"
#include "train/run_config.h"
#include "train/weight_average.h"

namespace tandem {

/// What one optimizer step did, over all ranks and micro-batches.
struct StepResult {
  LossSums sums;
  bool stop = false;  ///< some rank asked to stop
  /// Of the mean gradient before it was clipped; absent where nothing is clipped.
  std::optional<double> gradient_norm{};
};

/// One data-parallel replica: model, gradients, optimizer and their reduction over the ranks.
/// Implements Algorithm 1 of Li et al. 2020, "PyTorch Distributed", VLDB 13(12), on whatever device
/// and communicator it is given.
class Replica {
 public:
  /// Collective. Lays out and initialises the model (by seed, the same on every rank), checks that
  /// all ranks have the same plan. `context` and `communicator` outlive it. Throws InputError where
  /// train.freeze or train.init_skip names nothing of the model, or nothing is left to train.
  Replica(const RunConfig& config, const Graph& graph, std::int64_t micro_batch,
          AnyContext& context, Communicator& communicator);

  /// Collective: rank 0's parameters, buffers, optimizer state and averages to all ranks.
  void broadcast_from_root();
  /// Collective: rank 0's running statistics to all ranks, before an evaluation. In training each
  /// rank keeps its own, as torch's DistributedDataParallel does; rank 0's are the model's.
  void broadcast_buffers();
  /// Collective: throws where parameters or averages differ between ranks in any bit.
  void check_bits();

  /// Returns a batch that stays valid until the following call; called once a micro-batch.
  using NextBatch = std::function<const Batch&()>;

  /// Collective: one optimizer step. Where the loss is not finite the weights stay as they are.
  StepResult step(const NextBatch& next_batch, float learning_rate, bool stop_requested);

  /// Collective, after a step whose loss is not finite: where that came from, as a phrase for a
  /// message, the same on every rank. Runs the layers again.
  std::string explain_non_finite_loss();

  const Graph& graph() const { return graph_; }
  ParameterStore& store() { return store_; }
  const ParameterStore& store() const { return store_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// Null without train.ema_decay.
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  /// What is evaluated: the average where there is one.
  ParameterStore& evaluated_store() { return average_ ? average_->store() : store_; }
  /// Bytes of parameters, gradients, optimizer state and averages.
  std::size_t state_bytes() const;

  const StepPlan& plan() const { return plan_; }
  GradientBucketer& bucketer() { return bucketer_; }
  const GradientBucketer& bucketer() const { return bucketer_; }

 private:
  /// Sums that travel beside the gradients: loss, samples, top1, top5, stop.
  using Statistics = std::vector<float>;

  /// What random layers draw from in micro-batch `micro` of the step that is next. Samples lie as
  /// data/distributed_sampler.h says.
  StepRandom random_of(int micro) const;
  void begin_reduction(const LossSums& mine, bool stop_requested);
  void backward(bool accumulate, bool last);
  StepResult finish_step(float learning_rate);
  StepResult result(std::optional<double> norm = {}) const;
  void keep_failing(const Batch& batch, int micro);

  Communicator& communicator_;
  int accumulate_;
  std::uint64_t seed_;
  double clip_norm_;
  Graph graph_;
  ParameterStore store_;
  std::unique_ptr<CommunicatorSum> rank_sum_;  // null without synchronised batch normalisation
  StepPlan plan_;
  std::unique_ptr<Optimizer> optimizer_;
  GradientNorm gradient_norm_;
  std::optional<WeightAverage> average_;
  GradientBucketer bucketer_;
  Statistics statistics_;
  std::unique_ptr<Request> statistics_request_;

  const Batch* batch_ = nullptr;       // the last one
  std::vector<float> failing_images_;  // of this rank's first batch whose loss is not finite
  int failing_micro_ = 0;
  std::string failing_weights_;  // what was wrong with the weights before that batch
};

}  // namespace tandem
