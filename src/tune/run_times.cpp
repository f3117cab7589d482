#include "tune/run_times.h"

#include <algorithm>
#include <utility>

#include "base/median.h"

namespace tandem {
namespace {

/// A model and its plan take about so long where kernels are chosen already.
constexpr double usual_plan_seconds = 1.5;

}  // namespace

void RunTimes::add(const Placement& placement, Kernels kernels, double seconds,
                   const Measurement& found) {
  const bool chooses = found.on_gpus && kernels == Kernels::own && !has_own_kernels(placement);
  const double choosing = chooses ? std::max(found.plan_seconds - usual_plan_seconds, 0.0) : 0.0;
  runs_.push_back({placement, kernels, seconds, std::max(seconds - choosing, 0.0)});
}

double RunTimes::expected_seconds(const Placement& placement) const {
  const bool has_run = std::ranges::find(runs_, placement, &Run::placement) != runs_.end();
  std::vector<double> all;
  double own = 0.0;
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    all.push_back(has_run ? runs_[i].again : runs_[i].seconds);
    if (runs_[i].placement == placement) own = runs_[i].again;
  }
  if (own > 0.0) return own;
  return all.size() < 2 ? budget_ / 30.0 : median(std::move(all));
}

bool RunTimes::has_own_kernels(const Placement& placement) const {
  return std::ranges::any_of(runs_, [&](const Run& run) {
    return run.placement == placement && run.kernels == Kernels::own;
  });
}

}  // namespace tandem
