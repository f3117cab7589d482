#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "base/last_words.h"
#include "base/process_report.h"

namespace tandem::testing {

/// Does what throws, in a child that is in `step`, catches it nowhere near main(), and expects that
/// the last words match `spoken`.
template <typename Raise>
void expect_spoken(std::int64_t step, const char* spoken, const Raise& raise) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        own_report().set_step(step);
        speak_last_words(std::chrono::milliseconds(1),
                         [](const std::string& words, std::chrono::milliseconds) {
                           static_cast<void>(std::fputs(words.c_str(), stderr));
                           std::_Exit(0);
                         });
        try {
          raise();
        } catch (const std::exception&) {
          std::this_thread::sleep_for(std::chrono::seconds(20));
        }
      },
      ::testing::ExitedWithCode(0), spoken);
}

}  // namespace tandem::testing
