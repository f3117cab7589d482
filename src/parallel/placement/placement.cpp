#include "parallel/placement/placement.h"

#include <fmt/format.h>

namespace tandem {

std::string_view name_of(Colocation colocation) {
  return colocation == Colocation::processes ? "processes" : "folded";
}

std::string text_of(const Placement& placement) {
  if (placement.ranks_per_device == 1) return "one rank";
  const std::string ranks =
      fmt::format("{} {}", placement.ranks_per_device, name_of(placement.colocation));
  if (placement.sm_percent == 0) return ranks;
  return fmt::format("{} of {} %", ranks, placement.sm_percent);
}

}  // namespace tandem
