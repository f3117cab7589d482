#pragma once

#include <algorithm>
#include <chrono>

#include "base/standstill.h"

namespace tandem {

/// How long a rank that is alone waits for its own device before it takes it for hung: as long as
/// ranks wait for each other's, or silence_limit() of the longest wait so far. Nobody else waits
/// for it, and a step on a GPU that others compute on too may take longer now and then; the first
/// one has the time-out alone, as with several ranks.
class DevicePatience {
 public:
  using Seconds = std::chrono::duration<double>;

  explicit DevicePatience(Seconds timeout) : timeout_(timeout) {}

  /// Of the wait that begins now.
  Seconds limit() const { return Seconds(silence_limit(timeout_.count(), longest_.count())); }

  /// One has ended after so long.
  void waited(Seconds time) { longest_ = std::max(longest_, time); }

 private:
  Seconds timeout_;
  Seconds longest_{0.0};
};

}  // namespace tandem
