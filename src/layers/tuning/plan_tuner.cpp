#include "layers/tuning/plan_tuner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "base/log.h"
#include "device/cuda_libraries.h"
#include "device/tune_setting.h"
#include "layers/plans/convolution_direct.h"
#include "layers/tuning/plan_trial.h"

namespace tandem {
namespace {

constexpr std::size_t most_plans_a_layout = 10;
constexpr std::size_t choices_between_messages = 20;

/// Whether plans may be those of cuDNN and cuBLAS.
bool takes_libraries() { return tune_setting() != "own"; }

/// Of the libraries' plans where none is timed.
std::size_t untimed_plans() { return takes_libraries() ? 1 : 0; }

/// They keep the plans and the memory to try them on.
std::vector<PlanCandidate> candidates_of(CudaContext& context, const ConvolutionProblem& problem,
                                         const PlansToTry& tried) {
  std::size_t scratch_bytes = 0;
  for (const auto& plan : tried.plans) scratch_bytes = std::max(scratch_bytes, plan->scratch());
  const auto trial = std::make_shared<const PlanTrial>(context, problem, scratch_bytes, tried.bias);
  std::vector<PlanCandidate> candidates;
  for (const auto& plan : tried.plans) {
    candidates.push_back({.name = plan->name(),
                          .time = [=](float best) { return trial->time(*plan, best); },
                          .fault = [=] { return trial->fault(*plan); }});
  }
  return candidates;
}

/// Says what takes the time, at first and now and then.
void tell_progress(const CudaContext& context, const KernelChoices& choices) {
  if (choices.made() == 0) {
    log_info("choosing kernels for {} by timing{}", context.device().name,
             choices.keeps() ? ", once: kept in " + choices.file().string() : std::string());
  } else if (choices.made() % choices_between_messages == 0) {
    log_info("choosing kernels: {} chosen", choices.made());
  }
}

/// The fastest of the candidates, or the first where nothing is measured, of those that compute
/// what they should; kept for later runs where it was measured, else for this process.
PlanChoice choose(CudaContext& context, const std::string& key,
                  std::span<const PlanCandidate> candidates) {
  KernelChoices& choices = context.libraries().choices;
  if (may_measure()) tell_progress(context, choices);
  const auto begin = std::chrono::steady_clock::now();
  PlanChoice choice = may_measure() ? fastest_right(key, candidates) : first_right(key, candidates);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (choice.name.empty()) return choice;
  log_debug("{}: {} of {} candidates, {:.4f} ms, chosen in {:.2f} s", key, choice.name,
            candidates.size(), choice.ms, took.count());
  may_measure() ? choices.record(key, choice.name) : choices.remember_untimed(key, choice.name);
  return choice;
}

/// For this process: what is used without having been chosen.
void remember(CudaContext& context, const std::string& key, const std::string& name) {
  KernelChoices& choices = context.libraries().choices;
  may_measure() ? choices.remember(key, name) : choices.remember_untimed(key, name);
}

/// What the choices' lender took for it, where that is among the candidates and right here; this
/// process and those that adopt its choices use it from then on, and no file gets it.
std::optional<std::string> borrow(CudaContext& context, const std::string& key,
                                  std::span<const PlanCandidate> candidates) {
  KernelChoices& choices = context.libraries().choices;
  auto lent = choices.lent(key);
  if (!lent) return std::nullopt;
  const auto found = std::ranges::find(candidates, *lent, &PlanCandidate::name);
  if (found == candidates.end() || first_right(key, {&*found, 1}).name.empty()) return std::nullopt;
  log_debug("{}: {}, borrowed", key, *lent);
  choices.borrow(key);
  return lent;
}

/// Null where none is lent, or it is not right here.
ConvolutionPlanPtr borrowed_plan(CudaContext& context, const ConvolutionProblem& problem,
                                 const std::string& key) {
  const auto lent = context.libraries().choices.lent(key);
  auto plan = lent ? restore_plan(context, problem, *lent) : nullptr;
  if (plan == nullptr) return nullptr;
  return borrow(context, key, candidates_of(context, problem, {.plans = {plan}})) ? plan : nullptr;
}

void warn_of_untried(const std::string& key, const OutOfMemory& error) {
  log_warning("{} is neither timed nor checked: {}", key, error.what());
}

ConvolutionPlanPtr try_candidates(CudaContext& context, const ConvolutionProblem& problem,
                                  const std::string& key) {
  if (auto plan = borrowed_plan(context, problem, key)) return plan;
  const std::size_t most = may_measure() ? most_plans_a_layout : untimed_plans();
  const PlanChoice choice =
      choose(context, key,
             candidates_of(context, problem, {.plans = candidate_plans(context, problem, most)}));
  if (!choice.name.empty()) {
    auto plan = restore_plan(context, problem, choice.name);
    TANDEM_CHECK(plan != nullptr, "'{}' cannot be made again for '{}'", choice.name, key);
    return plan;
  }
  log_warning("{} is computed by Tandem's own, slow kernel; of the libraries' {}", key,
              why_none(choice));
  auto plan = direct_convolution_plan(context, problem);
  remember(context, key, plan->name());
  return plan;
}

/// The name of what was chosen before.
std::optional<std::string> known_name(CudaContext& context, const std::string& key) {
  const KernelChoices& choices = context.libraries().choices;
  return may_measure() ? choices.find(key) : choices.find_untimed(key);
}

/// The plan that was chosen, or null.
ConvolutionPlanPtr known_plan(CudaContext& context, const ConvolutionProblem& problem,
                              const std::string& key) {
  const auto name = known_name(context, key);
  if (!name) return nullptr;
  auto plan = restore_plan(context, problem, *name);
  if (plan == nullptr) log_debug("{}: '{}' is there no more", key, *name);
  return plan;
}

/// cuDNN's own first choice where there is no memory to try any.
ConvolutionPlanPtr try_if_it_fits(CudaContext& context, const ConvolutionProblem& problem,
                                  const std::string& key) {
  try {
    return try_candidates(context, problem, key);
  } catch (const OutOfMemory& error) {
    warn_of_untried(key, error);
    auto plan = candidate_plans(context, problem, untimed_plans()).front();
    remember(context, key, plan->name());
    return plan;
  }
}

ConvolutionPlanPtr make_plan(CudaContext& context, const ConvolutionProblem& problem,
                             const std::string& key) {
  ConvolutionPlanPtr plan = known_plan(context, problem, key);
  if (plan != nullptr) return plan;
  if (!may_measure()) return try_if_it_fits(context, problem, key);
  context.libraries().choices.make([&] {
    context.activate();  // this may be another thread
    plan = known_plan(context, problem, key);
    if (plan == nullptr) plan = try_if_it_fits(context, problem, key);
  });
  return plan;
}

/// The name that choose_way() has.
std::string try_ways(CudaContext& context, const std::string& key, const MakeCandidates& make,
                     const std::string& fallback) {
  try {
    const std::vector<PlanCandidate> candidates = make();
    if (const auto lent = borrow(context, key, candidates)) return *lent;
    const PlanChoice choice = choose(context, key, candidates);
    if (!choice.name.empty()) return choice.name;
    log_warning("{}: of the ways that were tried {}; '{}' is taken", key, why_none(choice),
                fallback);
  } catch (const OutOfMemory& error) {
    log_warning("{}: other ways than '{}' are not tried: {}", key, fallback, error.what());
  }
  remember(context, key, fallback);
  return fallback;
}

}  // namespace

bool may_measure() { return tune_setting() != "off" && takes_libraries(); }

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

std::string choose_way(CudaContext& context, const std::string& key, const MakeCandidates& make,
                       const std::string& fallback) {
  context.activate();
  if (!takes_libraries()) return fallback;
  std::optional<std::string> name = known_name(context, key);
  if (name) return *name;
  if (!may_measure()) return try_ways(context, key, make, fallback);
  KernelChoices& choices = context.libraries().choices;
  choices.make([&] {
    context.activate();  // this may be another thread
    name = choices.find(key);
    if (!name) name = try_ways(context, key, make, fallback);
  });
  return *name;
}

std::string choose_way(CudaContext& context, const ConvolutionProblem& problem,
                       const std::string& key, const MakePlans& make, const std::string& fallback) {
  return choose_way(
      context, key, [&] { return candidates_of(context, problem, make()); }, fallback);
}

}  // namespace tandem
