#include "layers/tuning/plan_trial.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/heartbeat.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/convolution_direct.h"
#include "layers/tuning/kernel_timing.h"
#include "layers/tuning/result_check.h"
#include "layers/tuning/trial_operand.h"

namespace tandem {
namespace {

/// Of the values that are compared with the definition, about the 2048th part of a result from one
/// to the next: a wrong region that is longer has one, a shorter one may lie between two. What is
/// not written is found wherever it is: it is not finite. But where a plan adds, what it leaves out
/// keeps the addend, and is found as another wrong value is.
constexpr std::int64_t most_samples = 2048;

enum Seed : unsigned { first_seed = 1, second_seed = 2, result_seed = 3 };

void fill(CudaContext& context, DType dtype, Seed seed, float scale, const DeviceBuffer& buffer) {
  const auto count = static_cast<std::int64_t>(buffer.bytes() / size_of(dtype));
  fill_operand(context, dtype, count, seed, scale, buffer.data());
}

}  // namespace

PlanTrial::PlanTrial(CudaContext& context, const ConvolutionProblem& problem,
                     std::size_t scratch_bytes, const float* bias)
    : context_(context),
      problem_(problem),
      samples_(ResultSamples::of(problem.result_elements(), most_samples)),
      first_(context, problem.first_bytes()),
      second_(context, problem.second_bytes()),
      result_(context, problem.result_bytes()),
      scratch_(context, scratch_bytes),
      reference_(context, static_cast<std::size_t>(samples_.count) * sizeof(float)),
      findings_(context, sizeof(ResultFindings)) {
  fill(context, problem.dtype(), first_seed, 1.0F, first_);
  fill(context, problem.dtype(), second_seed, 1.0F, second_);
  fill_result();
  fill_with_nan(context, reference_.bytes(), reference_.data());
  enqueue_direct_samples(context, problem, samples_, first_.data(), second_.data(), result_.data(),
                         bias, reinterpret_cast<float*>(reference_.data()));
}

void PlanTrial::fill_result() const {
  if (problem_.adds) {
    fill(context_, problem_.result_dtype(), result_seed, scale_beside_sums(problem_.sum_terms()),
         result_);
  } else {
    fill_with_nan(context_, result_.bytes(), result_.data());
  }
}

void PlanTrial::enqueue(const ConvolutionPlan& plan) const {
  plan.run(first_.data(), second_.data(), result_.data(), scratch_.data());
}

std::optional<float> PlanTrial::time(const ConvolutionPlan& plan, float best) const {
  fill_result();
  return time_kernels(
      context_, [&] { enqueue(plan); }, best);
}

ResultFindings PlanTrial::run(const ConvolutionPlan& plan, bool captured) const {
  fill_with_nan(context_, scratch_.bytes(), scratch_.data());
  fill_result();
  if (captured) {
    run_captured(context_, [&] { enqueue(plan); });
  } else {
    enqueue(plan);
  }
  auto* on_device = reinterpret_cast<ResultFindings*>(findings_.data());
  enqueue_findings(context_, problem_.result_dtype(), problem_.result_elements(), result_.data(),
                   samples_, reinterpret_cast<const float*>(reference_.data()), on_device);
  context_.synchronize();
  ResultFindings findings;
  TANDEM_CUDA_CHECK(cudaMemcpy(&findings, on_device, sizeof findings, cudaMemcpyDeviceToHost));
  return findings;
}

std::string PlanTrial::fault(const ConvolutionPlan& plan) const {
  heartbeat();
  try {
    const ResultFindings once = run(plan, false);
    return fault_of(once, run(plan, true), result_tolerance(problem_.precision));
  } catch (const SystemError& error) {
    // A fault of the device stays; this throws then.
    context_.synchronize();
    (void)cudaGetLastError();
    return fmt::format("does not run: {}", error.what());
  }
}

}  // namespace tandem
