#include "base/heartbeat.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/last_words.h"
#include "base/standstill.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// With the shortest limit that there is, two seconds and what ranks wait.
constexpr double timeout = 0.1;

/// Does `action` in a child of this process, waits for words for so long, and ends it with those
/// that are heard, or with "silence".
void expect(const char* heard, milliseconds within,
            const std::function<void(HeartbeatWatch&)>& action, int rank = 0,
            double start_seconds = 0.0) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::mutex mutex;
        std::condition_variable told;
        std::optional<std::string> words;
        speak_last_words(milliseconds(0), [&](const std::string& spoken, milliseconds) {
          const std::scoped_lock lock(mutex);
          words = spoken;
          told.notify_all();
        });
        HeartbeatWatch watch(timeout, rank, start_seconds);
        action(watch);
        std::unique_lock lock(mutex);
        told.wait_for(lock, within, [&] { return words.has_value(); });
        static_cast<void>(std::fputs(words ? words->c_str() : "silence", stderr));
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), heard);
}

constexpr milliseconds long_enough = seconds(20);
constexpr milliseconds at_once(200);

void beat_for(milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    heartbeat();
    std::this_thread::sleep_for(milliseconds(50));
  }
}

TEST(Heartbeat, ThatStandsStillIsTold) {
  expect(
      "^nothing has moved for 2.1 s, and no other rank is waited for; .*parallel.timeout_seconds"
      ".*; go on$",
      long_enough, [](HeartbeatWatch& watch) { watch.begin_phase("; go on"); });
}

TEST(Heartbeat, ThatGoesOnIsNot) {
  expect("^silence$", at_once, [](HeartbeatWatch&) { beat_for(seconds(5)); });
}

TEST(Heartbeat, MayBeSilentForLongerAfterALongSilence) {
  expect("^silence$", at_once, [](HeartbeatWatch&) {
    std::this_thread::sleep_for(milliseconds(1300));
    beat_for(seconds(1));
    std::this_thread::sleep_for(milliseconds(2800));
  });
}

TEST(Heartbeat, IsNotGivenTimeForSilencesOfAnEarlierPhase) {
  expect("^nothing has moved for 2.1 s", long_enough, [](HeartbeatWatch& watch) {
    std::this_thread::sleep_for(seconds(1));
    watch.begin_phase();
  });
}

TEST(Heartbeat, IsGivenTimeToStart) {
  constexpr double start = 20.0;
  expect(
      "^silence$", at_once, [](HeartbeatWatch&) { std::this_thread::sleep_for(seconds(4)); }, 0,
      start);
  expect(
      "^nothing has moved for 2.1 s", long_enough,
      [](HeartbeatWatch& watch) { watch.begin_phase(); }, 0, start);
}

// Others wait until the first has ended the job.
TEST(Heartbeat, IsToldByTheRanksInTurn) {
  expect(
      "^silence$", at_once,
      [](HeartbeatWatch&) { std::this_thread::sleep_for(milliseconds(2500)); }, 1);
}

TEST(Heartbeat, IsToldByTheRanksInTurnInASlowStart) {
  constexpr double start = 2.5;
  const auto stand = [](HeartbeatWatch&) {};
  expect("^nothing has moved for 2.5 s", long_enough, stand, 0, start);
  expect("^nothing has moved for 5 s", long_enough, stand, 1, start);
  expect("^nothing has moved for 5.1 s", long_enough, stand, 2, start);
}

// Three times that silence are 5 s or more, and rank 17's turn comes 3.1 s later. The shortest
// limit's own turn comes after 5.2 s.
TEST(Heartbeat, IsToldByTheRanksInTurnAfterLongSilencesToo) {
  constexpr int rank = 17;
  expect(
      "^nothing has moved for ([89]|1[0-9])(\\.[0-9]+)? s", seconds(40),
      [](HeartbeatWatch&) {
        std::this_thread::sleep_for(milliseconds(1800));
        beat_for(milliseconds(400));
      },
      rank);
}

// Also where a signal comes meanwhile, as by which a run is stopped.
TEST(Heartbeat, GoesOnWhereATerminalIsHeld) {
  expect("^silence$", at_once, [](HeartbeatWatch&) {
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_NONBLOCK), 0);
    while (::write(pipe[1], "x", 1) == 1) {
    }
    ASSERT_NE(std::signal(SIGUSR1, [](int) {}), SIG_ERR);
    std::thread reader([&, writer = ::pthread_self()] {
      std::this_thread::sleep_for(milliseconds(500));
      EXPECT_EQ(::pthread_kill(writer, SIGUSR1), 0);
      std::this_thread::sleep_for(seconds(4));
      std::vector<char> bytes(65536);
      EXPECT_GT(::read(pipe[0], bytes.data(), bytes.size()), 0);
    });
    beat_until_writable(pipe[1]);
    EXPECT_EQ(::write(pipe[1], "x", 1), 1);
    reader.join();
  });
}

TEST(Heartbeat, IsNotWatchedWhereNobodyLosesPatience) { HeartbeatWatch watch(0.0, 0); }

TEST(Standstill, RanksTakeTurns) {
  EXPECT_EQ(in_turn(20.0, 0), 20.0);
  EXPECT_EQ(in_turn(20.0, 1), 22.5);
  EXPECT_EQ(in_turn(20.0, 2), 22.6);
  EXPECT_EQ(in_turn(20.0, 1000), 23.1);
  EXPECT_EQ(in_turn(0.0, 1), 0.0);
}

TEST(Standstill, EarlierSilencesGiveTime) {
  EXPECT_EQ(silence_limit(25.0, 0.0), 25.0);
  EXPECT_EQ(silence_limit(25.0, 8.0), 25.0);
  EXPECT_EQ(silence_limit(25.0, 20.0), 60.0);
}

// What is promised: the last rank's turn too comes within 30 s.
TEST(Standstill, AHangIsToldInTimeByDefault) {
  constexpr double default_timeout = 20.0;
  constexpr int last_turn = 1000;
  const double usual = longest_standstill(Standstill::Seconds(default_timeout)).count();
  // What takes the process down, and mpirun, which lets two seconds pass.
  constexpr double to_the_end = 2.5;
  EXPECT_LE(in_turn(silence_limit(usual, 8.0), last_turn) + to_the_end, 30.0);
}

TEST(Standstill, OthersThanRanksLosePatienceLater) {
  using Seconds = Standstill::Seconds;
  EXPECT_EQ(longest_standstill(Seconds(20.0)), Seconds(24.0));
  EXPECT_EQ(longest_standstill(Seconds(2.0)), Seconds(4.0));
  EXPECT_EQ(longest_standstill(Seconds(0.0)), Seconds::max());
}

}  // namespace
}  // namespace tandem
