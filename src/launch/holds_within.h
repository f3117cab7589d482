#pragma once

#include <chrono>
#include <thread>

namespace tandem {

/// Whether `condition` comes to hold within `seconds`; asked at once, and every `interval` from
/// then on.
template <typename Condition>
bool holds_within(double seconds, std::chrono::milliseconds interval, const Condition& condition) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  while (!condition()) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return false;
    std::this_thread::sleep_for(interval);
  }
  return true;
}

}  // namespace tandem
