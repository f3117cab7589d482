#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/last_words.h"
#include "base/process_report.h"
#include "parallel/communicator.h"

namespace tandem {
namespace {

/// Throws what `raise` throws in a child that is in `step`, catches it nowhere near main(), and
/// expects `spoken`.
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
        } catch (const Error&) {
          std::this_thread::sleep_for(std::chrono::seconds(20));
        }
      },
      testing::ExitedWithCode(0), spoken);
}

TEST(FatalErrorTest, IsSpokenOfWithTheStep) {
  expect_spoken(7, "^step 7: rank 1 on a ended$", [] { throw RankEnded("rank 1 on a ended"); });
  expect_spoken(7, "^step 7: waited 4 s in barrier for rank 1$",
                [] { throw CommunicationTimeout("waited 4 s in barrier", "for rank 1"); });
}

TEST(FatalErrorTest, IsSpokenOfWithTheStepThatItNames) {
  expect_spoken(7, "^step 8: rank 1 on a ended$",
                [] { throw RankEnded("step 8: rank 1 on a ended"); });
}

TEST(FatalErrorTest, IsSpokenOfAsItIsBeforeTheFirstStep) {
  expect_spoken(0, "^rank 1 on a ended$", [] { throw RankEnded("rank 1 on a ended"); });
}

}  // namespace
}  // namespace tandem
