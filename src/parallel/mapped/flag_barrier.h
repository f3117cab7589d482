#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

/// A barrier of processes made of nothing but writing and awaiting constants, which is all that a
/// stream can do without a kernel, and all that can be captured into a graph that runs again.
///
/// Each process has an inbox of flags, all 0 at first: flag(phase, q) is where process q says that
/// it has arrived. At a barrier a process writes 1 into its flag of every other inbox, then awaits
/// 1 in each flag of its own inbox and sets it back to 0. Barriers alternate between two phases,
/// which have flags of their own.
///
/// No arrival is lost or seen twice, though none is acknowledged. Say q writes its flag of phase x
/// in p's inbox at barrier i. The last time was at barrier i - 2, and q has passed barrier i - 1
/// since: so it has seen p arrive there, which p did only after it had seen q's 1 of barrier i - 2
/// and set it back (a stream takes one step after the other). So the flag is 0 when q writes 1, and
/// what p awaits of it next is barrier i. One phase would not do: q could pass barrier i and write
/// the 1 of i + 1 before p has set back that of i, and p would wipe out both.
///
/// The phase is a constant of each step, in a graph the same in every launch. So what is enqueued
/// or captured as a whole always has an even number of barriers, beginning with phase 0: then
/// phases alternate in whatever order such wholes follow each other.
struct FlagStep {
  enum Kind : std::uint8_t { write, await };
  Kind kind = write;
  int inbox = 0;  ///< whose
  int flag = 0;   ///< which of its flags
  std::uint32_t value = 0;

  bool operator==(const FlagStep&) const = default;
};

constexpr int flag_barrier_phases = 2;

/// Flags of an inbox.
constexpr int flag_count(int members) { return flag_barrier_phases * members; }

/// What process `member` of `members` does at a barrier of that phase, in this order.
std::vector<FlagStep> flag_barrier(int members, int member, int phase);

}  // namespace tandem
