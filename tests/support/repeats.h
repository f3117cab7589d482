#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

namespace tandem {

/// How often a test does something again whose chance of failing is small each time: `many` times,
/// or the number in TANDEM_TEST_REPEATS where that is less, but at least once. A tool that looks at
/// what every kernel does has seen it the first time, and is slow (tools/device_tests.py sets it to
/// 1). `many` is at least 1.
inline int repeats(int many) {
  const char* const most = std::getenv("TANDEM_TEST_REPEATS");
  return most == nullptr ? many : std::clamp(std::stoi(most), 1, many);
}

/// Whether such a tool looks, which slows kernels down and takes memory of its own.
inline bool under_a_tool() { return repeats(2) == 1; }

}  // namespace tandem
