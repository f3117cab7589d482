#pragma once

#include <algorithm>
#include <chrono>

namespace tandem {

/// How long a rank that is alone waits for its own device before it takes it for hung: as long as
/// ranks wait for each other's, or ten times the longest wait so far. Nobody else waits for it, and
/// a step on a GPU that others compute on too may take longer now and then; the first one has the
/// time-out alone, as with several ranks.
class DevicePatience {
 public:
  using Seconds = std::chrono::duration<double>;

  explicit DevicePatience(Seconds timeout) : timeout_(timeout) {}

  /// Of the wait that begins now.
  Seconds limit() const { return std::max(factor * longest_, timeout_); }

  /// One has ended after so long.
  void waited(Seconds time) { longest_ = std::max(longest_, time); }

 private:
  static constexpr double factor = 10.0;

  Seconds timeout_;
  Seconds longest_{0.0};
};

}  // namespace tandem
