#include "base/last_words.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A speaker that speaks is the last one of its process: so each test's is in a child, which ends
// with what was spoken, or with silence.

constexpr milliseconds patience(2000);

class Listener {
 public:
  Listener() {
    speak_last_words(patience, [this](const std::string& words, std::chrono::milliseconds) {
      const std::scoped_lock lock(mutex_);
      words_ = words;
      heard_.notify_all();
    });
  }

  /// What is heard within the time; ends the process.
  [[noreturn]] void end_with_what_is_heard(std::chrono::milliseconds within) {
    std::unique_lock lock(mutex_);
    heard_.wait_for(lock, within, [this] { return words_.has_value(); });
    static_cast<void>(std::fputs(words_ ? words_->c_str() : "silence", stderr));
    std::_Exit(0);
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::optional<std::string> words_;
};

class LastWordsTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  template <typename Action>
  static void expect(const char* heard, milliseconds within, const Action& action) {
    EXPECT_EXIT(
        {
          Listener listener;
          action();
          listener.end_with_what_is_heard(within);
        },
        testing::ExitedWithCode(0), heard);
  }
};

TEST_F(LastWordsTest, AreSpokenWhereMainIsNotReached) {
  expect("^a device hangs$", seconds(20), [] { leave_last_words("a device hangs"); });
}

TEST_F(LastWordsTest, AreTheLatest) {
  expect("^step 3: a device hangs$", seconds(20), [] {
    leave_last_words("a device hangs");
    leave_last_words("step 3: a device hangs");
  });
}

TEST_F(LastWordsTest, AreNotSpokenWhereMainIsReached) {
  expect("^silence$", 2 * patience, [] {
    leave_last_words("a device hangs");
    silence_last_words();
    leave_last_words("another one");
  });
}

TEST_F(LastWordsTest, TellWhetherSomebodySpeaksThem) {
  EXPECT_FALSE(leave_last_words("a device hangs"));
  expect("^yes$", seconds(20), [] {
    if (leave_last_words("no")) leave_last_words("yes");
  });
}

TEST_F(LastWordsTest, AreLeftUntilMainIsReached) {
  const auto check = [](bool as_expected) {
    if (!as_expected) std::abort();
  };
  expect("silence", milliseconds(100), [&] {
    check(!last_words_are_left());
    leave_last_words("words");
    check(last_words_are_left());
    silence_last_words();
    check(!last_words_are_left());
  });
}

TEST_F(LastWordsTest, AreNotSpokenWithoutAny) {
  expect("^silence$", 2 * patience, [] {});
}

TEST_F(LastWordsTest, WaitForWhoeverHoldsThem) {
  expect("^step 3: a device hangs$", seconds(20), [] {
    leave_last_words("a device hangs");
    const LastWordsHeld held;
    std::this_thread::sleep_for(2 * patience);
    leave_last_words("step 3: a device hangs");
  });
  expect("^silence$", 2 * patience, [] {
    leave_last_words("a device hangs");
    static const LastWordsHeld held;
  });
}

/// Stops this process for that long, as a batch system or a host without a free core does.
void stand_still(milliseconds time) {
  const pid_t self = ::getpid();
  const pid_t other = ::fork();
  if (other == 0) {
    ::kill(self, SIGSTOP);
    std::this_thread::sleep_for(time);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  ::waitpid(other, nullptr, 0);
}

// After which main() has as long as without it.
TEST_F(LastWordsTest, AreNotSpokenForTimeInWhichTheProcessStoodStill) {
  expect("^silence$", seconds(1), [] {
    leave_last_words("a device hangs");
    stand_still(2 * patience);
    std::this_thread::sleep_for(patience / 4);
    silence_last_words();
  });
}

// As by a look for checkpoints on a disk that does not answer.
TEST_F(LastWordsTest, ThatAreHeldForEverAreSpoken) {
  expect("^a device hangs$", seconds(20), [] {
    leave_last_words("a device hangs");
    static const LastWordsHeld held;
  });
}

TEST_F(LastWordsTest, OfAnErrorThatIsThrownOnAsItIsAreSpoken) {
  expect("^a device hangs$", seconds(20), [] {
    leave_last_words("a device hangs");
    const LastWordsHeld held;
  });
}

}  // namespace
}  // namespace tandem
