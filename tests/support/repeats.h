#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

namespace tandem {

/// How often a test does something again whose chance of failing is small each time: `many` times,
/// or the number in TANDEM_TEST_REPEATS where that is less. A tool that looks at what every kernel
/// does has seen it the first time, and is slow (tools/device_tests.py sets it to 1).
inline int repeats(int many) {
  const char* const most = std::getenv("TANDEM_TEST_REPEATS");
  return most == nullptr ? many : std::min(many, std::stoi(most));
}

}  // namespace tandem
