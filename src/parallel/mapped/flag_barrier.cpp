#include "parallel/mapped/flag_barrier.h"

namespace tandem {

std::vector<FlagStep> flag_barrier(int members, int member, int phase) {
  const auto flag_of = [&](int from) { return phase * members + from; };
  std::vector<FlagStep> steps;
  for (int other = 0; other < members; ++other) {
    if (other != member) steps.push_back({FlagStep::write, other, flag_of(member), 1});
  }
  for (int other = 0; other < members; ++other) {
    if (other == member) continue;
    steps.push_back({FlagStep::await, member, flag_of(other), 1});
    steps.push_back({FlagStep::write, member, flag_of(other), 0});
  }
  return steps;
}

}  // namespace tandem
