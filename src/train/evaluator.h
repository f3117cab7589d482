#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/data_loader.h"
#include "device/arena.h"
#include "graph/step_plan.h"
#include "parallel/communicator.h"
#include "train/data_loading.h"
#include "train/evaluation_pass.h"

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

struct EvaluatorOptions {
  std::int64_t batch = 1;  ///< samples that a rank takes at once
  EvaluationLoading loading{};
  Precision precision = Precision::fp32;  ///< as of the parameter store
  /// Memory of the context's, aligned as an Arena, that evaluations may use, and destroy what is
  /// there: that of a step plan between its steps (StepPlan::memory()). Outlives the evaluator.
  std::span<std::byte> spare{};
};

/// `wanted` samples at once, or a rank's share of so many where that is less.
std::int64_t evaluation_batch(std::int64_t wanted, std::int64_t samples, int ranks);

/// Runs a model over a whole data set, shared out over the ranks of `communicator`.
class Evaluator {
 public:
  /// Collective. All but the options outlive the evaluator. Throws InputError where a device has
  /// not the memory for such batches.
  Evaluator(const Dataset& dataset, const Transform& transform, const Graph& graph,
            ParameterStore& store, AnyContext& context, Communicator& communicator,
            const EvaluatorOptions& options);

  /// What is done before each of this rank's batches, with how many of the set's samples are done,
  /// if the other ranks are as far as this one.
  using Watch = std::function<void(std::int64_t done)>;
  using Stop = std::function<bool(std::int64_t done)>;

  /// Collective. Parameters and buffers must be the same on all ranks. Throws InputError where not
  /// one sample could be read.
  Evaluation run(const Watch& watch = {});
  /// The same, but a rank that finds `stop` to hold before one of its batches leaves the rest. Then
  /// there is no evaluation, on any rank.
  std::optional<Evaluation> run_unless(const Stop& stop);
  /// Of the set.
  std::int64_t samples() const { return dataset_.size(); }
  /// What this rank skipped in its last run().
  const std::vector<BadSample>& bad_samples() const { return bad_; }

  /// Of memory of its own, beside the spare one.
  std::size_t activation_bytes() const { return plan_->activation_bytes(); }

 private:
  std::unique_ptr<StepPlan> make_plan(const Graph& graph, ParameterStore& store,
                                      StepPlanOptions options);
  /// A device's memory for the images, spare memory where that suffices.
  Arena make_image_memory(const EvaluatorOptions& options);
  std::unique_ptr<EvaluationPass> make_pass();
  DataLoader::Options loader_options(const EvaluationLoading& loading);
  /// This rank's share; nothing where `stop` came before its end.
  std::optional<LossSums> run_share(const Stop& stop);

  const Dataset& dataset_;
  const Transform& transform_;
  AnyContext& context_;
  Communicator& communicator_;
  Tensor images_;                // without memory on a host, whose batches come as they are
  std::size_t spare_taken_ = 0;  // of the spare bytes, by the images
  Arena image_memory_;           // a device's
  std::unique_ptr<StepPlan> plan_;
  DataLoader loader_;  // its memory stays, for to get it takes longer than a small set's evaluation
  std::unique_ptr<EvaluationPass> pass_;  // behind the loader, whose memory a device may still read
  std::vector<BadSample> bad_;
};

/// Sums of several ranks, the same bits on all of them. Collective.
LossSums sum_over_ranks(Communicator& communicator, const LossSums& mine);

}  // namespace tandem
