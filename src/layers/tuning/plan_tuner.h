#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layers/plans/convolution_plan.h"
#include "layers/tuning/plan_choice.h"

namespace tandem {

/// Whether kernels are timed: unless TANDEM_TUNE is "off" or "own".
bool may_measure();

/// The fastest plan for the problem: the one that layers of equal shapes use already, else the one
/// that was fastest in an earlier run on this device, else the fastest of all candidates as
/// measured now (a tenth of a second or so) in memory that is freed again, of those whose result is
/// right (layers/tuning/plan_trial.h). The choice is kept for later runs (device/kernel_choices.h).
/// With TANDEM_TUNE=off nothing is measured, and of cuDNN's own first choices the first is taken
/// whose result is right, from then on in this process, and no file gets it; with TANDEM_TUNE=own
/// likewise of Tandem's own kernels, for tools that the libraries' kernels end. With
/// TANDEM_TUNE=borrow a choice that was not made yet for the device's multiprocessors is that for
/// the most of them that is kept (device/choices_file.h), where that one is right here: of
/// cuBLASLt's algorithms the one at the same place, which may be another. No file gets that, nor
/// what is timed beside it. Where none is right, with a warning, Tandem's own (slow) plan is taken;
/// where memory to try them is missing, with a warning, the very first of them: in this process and
/// those that adopt its choices (parallel/shared_choices.h).
ConvolutionPlanPtr choose_plan(CudaContext& context, const ConvolutionProblem& problem);

/// Plans that differ in their names, of which one is to be chosen.
struct PlansToTry {
  std::vector<ConvolutionPlanPtr> plans;
  const float* bias = nullptr;  ///< see PlanTrial; the plans own it
};
using MakePlans = std::function<PlansToTry()>;

/// Ways to compute something that is not a plan's alone; they hold what they run on.
using MakeCandidates = std::function<std::vector<PlanCandidate>()>;

/// The same for any ways to compute what `key` says: the name of the chosen one. `fallback`: the
/// name of what is taken, with a warning, where memory to try them is missing, or none is right: a
/// way that is known to be.
std::string choose_way(CudaContext& context, const std::string& key, const MakeCandidates& make,
                       const std::string& fallback);
/// The same for other plans of a problem than those of layers/plans/convolution_plan.h.
std::string choose_way(CudaContext& context, const ConvolutionProblem& problem,
                       const std::string& key, const MakePlans& make, const std::string& fallback);

}  // namespace tandem
