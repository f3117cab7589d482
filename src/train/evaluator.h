#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/data_loader.h"
#include "device/arena.h"
#include "graph/step_plan.h"
#include "parallel/communicator.h"
#include "train/data_loading.h"
#include "train/evaluation_input.h"

namespace tandem {

/// What an evaluation found; means over the samples of the set that could be read, each counted
/// once.
struct Evaluation {
  double loss = 0.0;
  double top1 = 0.0;  ///< fraction of samples, 0 to 1
  double top5 = 0.0;
  std::int64_t samples = 0;
  std::int64_t skipped = 0;  ///< could not be read
  double seconds = 0.0;
};

/// Runs a model over a whole data set, shared out over the ranks of `communicator`.
class Evaluator {
 public:
  /// Collective. `batch`: samples a rank takes at once. All of these outlive the evaluator. Throws
  /// InputError where a device has not the memory for such batches.
  Evaluator(const Dataset& dataset, const Transform& transform, const Graph& graph,
            ParameterStore& store, AnyContext& context, Communicator& communicator,
            std::int64_t batch, const EvaluationLoading& loading,
            Precision precision = Precision::fp32);

  /// Collective. Parameters and buffers must be the same on all ranks. Throws InputError where not
  /// one sample could be read.
  Evaluation run();
  /// The same, but a rank that finds `stop` to hold before one of its batches leaves the rest. Then
  /// there is no evaluation, on any rank.
  std::optional<Evaluation> run_unless(const std::function<bool()>& stop);
  /// What this rank skipped in its last run().
  const std::vector<BadSample>& bad_samples() const { return bad_; }

  std::size_t activation_bytes() const { return plan_->activation_bytes(); }

 private:
  std::unique_ptr<StepPlan> make_plan(const Graph& graph, ParameterStore& store,
                                      StepPlanOptions options);
  std::unique_ptr<EvaluationInput> make_input(const Shape& image);
  /// This rank's share; nothing where `stop` came before its end.
  std::optional<LossSums> run_share(const std::function<bool()>& stop);

  const Dataset& dataset_;
  const Transform& transform_;
  AnyContext& context_;
  Communicator& communicator_;
  std::unique_ptr<StepPlan> plan_;
  Arena image_memory_;  // a device's
  std::unique_ptr<EvaluationInput> input_;
  EvaluationLoading loading_;
  std::optional<DataLoader> loader_;  // outlives what it throws, for it may wait for what hangs
  std::vector<BadSample> bad_;
};

/// Sums of several ranks, the same bits on all of them. Collective.
LossSums sum_over_ranks(Communicator& communicator, const LossSums& mine);

}  // namespace tandem
