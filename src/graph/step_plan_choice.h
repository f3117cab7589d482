#pragma once

#include <functional>
#include <memory>

#include "graph/step_plan.h"

namespace tandem {

/// Makes a plan; of SideWork::by_timing and NormDeferral::by_timing the ways that make a step the
/// fastest. That is what was measured in an earlier run of such a step on this device (with
/// TANDEM_TUNE=borrow, where there is none, with the most of its multiprocessors), else what is
/// measured now, in some seconds: forward and backward of one batch of noise (without updates, also
/// where a run makes them in backward), by size, then with normalisations left for memory alone,
/// then without side work, each in a plan of its own, one after the other. What was found is kept
/// for later runs (device/kernel_choices.h). Another way than by size must be faster by more than
/// measurements differ, and is given up where a later run has not the memory for it.
///
/// By size without a measurement where that leaves nothing aside or to a reader, the memory for a
/// batch is missing, nothing is timed (TANDEM_TUNE), or ranks sum statistics
/// (StepPlanOptions::rank_sum), which could only be timed together. Of ranks that share a device
/// the first one measures, as if it were alone there (parallel/shared_choices.h).
///
/// Gradients hold anything afterwards, the store is else as before. Its parameters have been set.
std::unique_ptr<StepPlan> make_step_plan(const Graph& graph, ParameterStore& parameters,
                                         AnyContext& context, const StepPlanOptions& options);

/// Whether steps are timed on the device: not on a CPU, where they are not captured, nor with
/// TANDEM_TUNE "off" or "own".
bool times_steps(const CpuContext& device);
bool times_steps(const CudaContext& device);

/// Seconds of forward and backward of a plan for training, captured in a graph: the median of
/// several launches. Writes gradients and follows running statistics. `between` is called before
/// each wait for the device, of a step or, of short ones, a hundredth of a second; it may be empty.
/// Throws OutOfMemory where there is no memory for a batch. On a CPU it is not to be called.
double time_step(CpuContext& device, const Graph& graph, AnyContext& context, StepPlan& plan,
                 const std::function<void()>& between);
double time_step(CudaContext& device, const Graph& graph, AnyContext& context, StepPlan& plan,
                 const std::function<void()>& between);

}  // namespace tandem
