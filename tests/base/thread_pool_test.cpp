#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <latch>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  constexpr int tasks = 1000;
  std::vector<std::atomic<int>> runs(tasks);
  std::latch done(tasks);
  ThreadPool pool(4);
  EXPECT_EQ(pool.size(), 4);
  for (std::atomic<int>& run : runs) {
    pool.submit([&run, &done] {
      ++run;
      done.count_down();
    });
  }
  done.wait();
  for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
}

TEST(ThreadPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  std::latch done(1);
  ThreadPool pool(1);
  for (int i = 0; i < 100; ++i) pool.submit([&order, i] { order.push_back(i); });
  pool.submit([&done] { done.count_down(); });
  done.wait();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

/// Each task waits for the others: with fewer threads at work they would wait for ever.
TEST(ThreadPool, RunsSeveralAtOnce) {
  std::latch together(3);
  std::latch done(3);
  ThreadPool pool(3);
  for (int i = 0; i < 3; ++i) {
    pool.submit([&] {
      together.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
  EXPECT_TRUE(done.try_wait());
}

// In a child, whose memory ends after a few threads' stacks.
TEST(ThreadPool, EndsWhatItStartedWhereThereIsNoRoomForMore) {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  if (pages > (std::int64_t{1} << 26)) GTEST_SKIP() << "a sanitizer has taken all addresses";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr rlim_t room = rlim_t{256} << 20;
    const rlimit limit{room, room};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    try {
      const ThreadPool pool(1000);
    } catch (const std::system_error& error) {
      ::_exit(error.code() == std::errc::resource_unavailable_try_again ? 0 : 3);
    } catch (const std::bad_alloc&) {
      ::_exit(4);
    }
    ::_exit(5);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ThreadPool, DropsWhatHasNotStartedAndWaitsForWhatHas) {
  std::atomic<int> finished = 0;
  std::latch started(1);
  std::latch go_on(1);
  std::thread opener;
  {
    ThreadPool pool(1);
    pool.submit([&] {
      started.count_down();
      go_on.wait();
      ++finished;
    });
    started.wait();
    auto task = std::make_shared<int>(100);
    for (int i = 0; i < 10; ++i) pool.submit([&finished, task] { finished += *task; });
    opener = std::thread([&go_on, waiting = std::weak_ptr<int>(task)] {
      for (int tries = 0; tries < 20'000 && !waiting.expired(); ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      go_on.count_down();
    });
  }
  EXPECT_EQ(finished, 1);
  opener.join();
}

TEST(ThreadPool, NeedsAThread) { EXPECT_THROW(ThreadPool(0), Error); }

}  // namespace
}  // namespace tandem
