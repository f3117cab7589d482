#include "tune/candidate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/median.h"

namespace tandem {
namespace {

std::vector<double> sorted(const std::vector<Rates>& runs, double Rates::*rate) {
  TANDEM_CHECK(!runs.empty(), "nothing was measured");
  std::vector<double> values;
  values.reserve(runs.size());
  for (const Rates& run : runs) values.push_back(run.*rate);
  std::ranges::sort(values);
  return values;
}

}  // namespace

std::string text_of(const Candidate& candidate) {
  return fmt::format("{}, {} worker{}{}", text_of(candidate.placement), candidate.workers,
                     candidate.workers == 1 ? "" : "s",
                     processes_of(candidate.placement) > 1 ? " each" : "");
}

int processes_of(const Placement& placement) {
  return placement.colocation == Colocation::folded ? 1 : placement.ranks_per_device;
}

double Row::training() const { return median(sorted(counted(), &Rates::training)); }

double Row::one_batch() const { return median(sorted(counted(), &Rates::one_batch)); }

double Row::first_training() const { return median(sorted(runs, &Rates::training)); }

double Row::least_training() const { return sorted(counted(), &Rates::training).front(); }

double Row::most_training() const { return sorted(counted(), &Rates::training).back(); }

bool Row::borrowed_kernels() const {
  return std::ranges::any_of(counted(), &Rates::borrowed_kernels);
}

double Row::spread() const {
  if (counted().size() == 1) return counted().front().range;
  return (most_training() - least_training()) / training();
}

}  // namespace tandem
