#pragma once

#include <algorithm>
#include <cstdlib>

namespace tandem {

/// How many times longer than usual tests wait: TANDEM_TEST_PATIENCE, for tools that slow programs
/// down, such as compute-sanitizer.
inline unsigned test_patience() {
  const char* text = std::getenv("TANDEM_TEST_PATIENCE");
  return text == nullptr ? 1U : static_cast<unsigned>(std::clamp(std::atoi(text), 1, 100));
}

/// Seconds, or as many times more as tests are to wait longer.
inline double patient(double seconds) { return seconds * test_patience(); }

}  // namespace tandem
