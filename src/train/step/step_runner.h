#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/data_loader.h"
#include "device/any_context.h"
#include "graph/parameters.h"
#include "graph/step_plan.h"
#include "optim/optimizer.h"
#include "parallel/gradient_bucketer.h"
#include "train/run_config.h"
#include "train/step/raw_input.h"
#include "train/step/sharded_update.h"
#include "train/step/step_observer.h"
#include "train/step/weight_average.h"

namespace tandem {

/// What the sum of losses and counts over the ranks is called where a step waits for it in vain.
constexpr std::string_view statistics_label = "the step's statistics";

/// What optimizer steps did, over all ranks and micro-batches.
struct StepResult {
  std::int64_t steps = 0;  ///< so many
  LossSums sums;
  bool stop = false;  ///< some rank asked to stop
  /// Of the mean gradient before it was clipped; absent where nothing is clipped.
  std::optional<double> gradient_norm{};
  /// How long this rank waited for gradients after its backward passes.
  double exposed_seconds = 0.0;
  /// The step, from 1, whose loss was not finite; 0: none. It and the ones after it changed
  /// nothing.
  std::int64_t failed_step = 0;

  /// Adds what later steps did.
  StepResult& operator+=(const StepResult& later);
};

/// Returns a batch, called once a micro-batch. It stays valid until the following call, and a raw
/// one for DeviceInput::hold() calls.
using NextBatch = std::function<const Batch&()>;

/// What a step works with; all of it outlives the runner but `bucketer` and `sharded`, which the
/// runner's end does not touch.
struct StepParts {
  const RunConfig& config;
  Shape input;  ///< of the model, for a batch of one
  AnyContext& context;
  /// Over memory of the context.
  Communicator& communicator;
  ParameterStore& store;
  StepPlan& plan;
  Optimizer& optimizer;
  WeightAverage* average;  ///< may be null
  GradientBucketer& bucketer;
  std::optional<RawInput> raw;  ///< on a device: its batches are raw
  /// Where the state is shared (train/step/shared_state.h), else null.
  SharedDevice* shared = nullptr;
  /// Where each rank updates a share, else null.
  ShardedUpdate* sharded = nullptr;
};

/// Runs one replica's optimizer steps (Algorithm 1 of Li et al. 2020, "PyTorch Distributed", VLDB
/// 13(12)) in a way that suits its device.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// Collective: one step. Returns what was found since the last call: on the CPU of this step; a
  /// device is still at it, and the result is of the step before. Where a loss is not finite the
  /// weights stay as they are.
  virtual StepResult step(const NextBatch& next_batch, float learning_rate,
                          bool stop_requested) = 0;
  /// Waits for what is under way and returns what was not returned yet.
  virtual StepResult settle() = 0;
  /// Collective: the same, and all ranks' devices have ended the step then. For before what may be
  /// each rank's own for long, as an evaluation is: a device that hangs once it has given and taken
  /// all sums might not be missed until the others are through with that.
  virtual StepResult settle_together() { return settle(); }

  /// From the next step on `observer` is told the steps' moments; null, as at first: nobody. Not
  /// while a step is under way. A device captures its step anew.
  virtual void observe(StepObserver* observer) = 0;

  /// After a step whose loss is not finite: where on this rank that came from, as a phrase; empty
  /// where it did not come from here. Runs the layers again, so that all ranks call it.
  virtual std::string explain_non_finite_loss() = 0;

  /// The loss scale that the last step left, where losses are scaled (fp16). A run that goes on
  /// from a checkpoint goes on with it.
  virtual std::optional<LossScale> loss_scale() const { return std::nullopt; }
  /// Puts it back, while no step is under way. Nothing where losses are not scaled.
  virtual void set_loss_scale(const LossScale& /*scale*/) {}

 protected:
  StepRunner() = default;
};

std::unique_ptr<StepRunner> make_step_runner(CpuContext& context, const StepParts& parts);
std::unique_ptr<StepRunner> make_step_runner(CudaContext& context, const StepParts& parts);

/// What random layers draw from in micro-batch `micro` of the step after `steps` ones. Samples lie
/// as data/distributed_sampler.h says.
StepRandom step_random(const StepParts& parts, std::int64_t steps, int micro);

}  // namespace tandem
