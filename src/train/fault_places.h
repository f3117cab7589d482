#pragma once

#include <functional>
#include <string>

#include "parallel/placement/rank_topology.h"

namespace tandem {

/// What a fault's message says of the work that it ends.
struct FaultNotes {
  std::string at{};  ///< what was under way: "step 12: "; may be empty
  /// How it goes on: "go on with --resume"; looks at the run's folder. Empty: there is nothing to
  /// do.
  std::function<std::string()> way_on{};
};

/// Throws the Error that is being handled on. One of other ranks, of a device, or of data that do
/// not come, which ends a job from without, becomes one of its kind whose message says where the
/// ranks are and what to do; `notes` is asked then alone. To be called before anything is taken
/// down that uses a device: that may wait for it for ever.
[[noreturn]] void rethrow_with_places(const RankTopology& places,
                                      const std::function<FaultNotes()>& notes);

}  // namespace tandem
