#include "layers/plan_tuner.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "base/log.h"
#include "device/cuda_libraries.h"
#include "layers/convolution_direct.h"
#include "layers/kernel_timing.h"

namespace tandem {
namespace {

constexpr std::size_t most_plans_a_layout = 10;
constexpr std::size_t choices_between_messages = 20;

bool may_measure() {
  const char* value = std::getenv("TANDEM_TUNE");
  return value == nullptr || std::string_view(value) != "off";
}

struct Measured {
  std::string name;
  float ms = std::numeric_limits<float>::infinity();
};

/// Without a candidate that runs, the name is empty.
Measured measure(CudaContext& context, const ConvolutionProblem& problem,
                 const std::vector<ConvolutionPlanPtr>& plans) {
  std::size_t scratch_bytes = 0;
  for (const auto& plan : plans) scratch_bytes = std::max(scratch_bytes, plan->scratch());
  const TimingBuffer first(context, problem.first_bytes());
  const TimingBuffer second(context, problem.second_bytes());
  const TimingBuffer result(context, problem.result_bytes());
  const TimingBuffer scratch(context, scratch_bytes);
  fill_for_timing(context, first);
  fill_for_timing(context, second);
  if (problem.adds) fill_for_timing(context, result);
  Measured best;
  for (const auto& plan : plans) {
    const auto run = [&] { plan->run(first.data(), second.data(), result.data(), scratch.data()); };
    const auto ms = time_kernels(context, run, best.ms);
    if (!ms) continue;
    log_debug("{}: {:.4f} ms by {}", problem.key(), *ms, plan->name());
    if (*ms < best.ms) best = {plan->name(), *ms};
  }
  return best;
}

/// Says what takes the time, at first and now and then.
void tell_progress(const CudaContext& context, const KernelChoices& choices) {
  if (choices.made() == 0) {
    log_info("choosing kernels for {} by timing{}", context.device().name,
             choices.file().empty() ? std::string() : ", once: kept in " + choices.file().string());
  } else if (choices.made() % choices_between_messages == 0) {
    log_info("choosing kernels: {} chosen", choices.made());
  }
}

ConvolutionPlanPtr tune(CudaContext& context, const ConvolutionProblem& problem) {
  KernelChoices& choices = context.libraries().choices;
  tell_progress(context, choices);
  const auto begin = std::chrono::steady_clock::now();
  Measured best;
  std::size_t count = 0;
  {
    const auto plans = candidate_plans(context, problem, most_plans_a_layout);
    count = plans.size();
    if (count == 1) best.name = plans.front()->name();
    if (count > 1) best = measure(context, problem, plans);
  }
  if (best.name.empty()) best.name = direct_convolution_plan(context, problem)->name();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  // Made again, so that the memory of all others is given back.
  ConvolutionPlanPtr plan = restore_plan(context, problem, best.name);
  TANDEM_CHECK(plan != nullptr, "no kernel runs '{}'", problem.key());
  choices.record(problem.key(), best.name);
  log_debug("{}: {} of {} candidates, {:.4f} ms, chosen in {:.2f} s", problem.key(), best.name,
            count, best.ms, took.count());
  return plan;
}

/// cuDNN's own first choice.
ConvolutionPlanPtr first_plan(CudaContext& context, const ConvolutionProblem& problem) {
  return candidate_plans(context, problem, 1).front();
}

ConvolutionPlanPtr make_plan(CudaContext& context, const ConvolutionProblem& problem,
                             const std::string& key) {
  if (!may_measure()) return first_plan(context, problem);
  if (const auto name = context.libraries().choices.find(key)) {
    if (auto plan = restore_plan(context, problem, *name)) return plan;
    log_debug("{}: '{}' is there no more", key, *name);
  }
  try {
    return tune(context, problem);
  } catch (const OutOfMemory& error) {
    log_warning("{} is not timed: {}", key, error.what());
    return first_plan(context, problem);
  }
}

}  // namespace

ConvolutionPlanPtr choose_plan(CudaContext& context, const ConvolutionProblem& problem) {
  context.activate();
  const std::string key = problem.key();
  auto& prepared = context.libraries().prepared[key];
  if (const auto shared = prepared.lock()) {
    return std::static_pointer_cast<const ConvolutionPlan>(shared);
  }
  ConvolutionPlanPtr plan = make_plan(context, problem, key);
  prepared = plan;
  return plan;
}

}  // namespace tandem
