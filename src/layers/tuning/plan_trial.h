#pragma once

#include <optional>
#include <string>

#include "device/device_buffer.h"
#include "layers/plans/convolution_plan.h"
#include "layers/plans/result_samples.h"
#include "layers/tuning/plan_choice.h"

namespace tandem {

/// Operands in device memory on which plans for a problem are timed and looked at, one after
/// another: random numbers between -1 and 1, and what a plan adds to of the size of its sums.
/// Included by sources only.
class PlanTrial {
 public:
  /// `scratch_bytes`: the most that one of the plans needs. `bias`: what the plans for a forward
  /// problem add to each pixel of the result, in device memory; null where they add nothing. Throws
  /// OutOfMemory.
  PlanTrial(CudaContext& context, const ConvolutionProblem& problem, std::size_t scratch_bytes,
            const float* bias = nullptr);

  /// See time_kernels().
  std::optional<float> time(const ConvolutionPlan& plan, float best) const;

  /// What is wrong with the plan's result, as a phrase, which may be that it does not run; empty
  /// where nothing is. Throws SystemError where the device itself has failed. Runs it by itself
  /// and in a captured graph, each time on scratch, and into memory, that reads as NaN (where the
  /// problem adds, into the addend): the result must be finite, close to the definition
  /// (layers/plans/convolution_direct.h) wherever that is looked at, and have the same bits both
  /// times. Synchronises.
  std::string fault(const ConvolutionPlan& plan) const;

 private:
  void enqueue(const ConvolutionPlan& plan) const;
  void fill_result() const;
  ResultFindings run(const ConvolutionPlan& plan, bool captured) const;

  CudaContext& context_;
  ConvolutionProblem problem_;
  ResultSamples samples_;
  DeviceBuffer first_;
  DeviceBuffer second_;
  DeviceBuffer result_;
  DeviceBuffer scratch_;
  DeviceBuffer reference_;  // f32: the definition at the samples
  DeviceBuffer findings_;
};

}  // namespace tandem
