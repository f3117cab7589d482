#include "base/idle_wait.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tandem {
namespace {

/// How often this thread gives its core away by itself in so many pauses, as a sleep does.
long sleeps(IdleWait& idle, int pauses) {
  const auto so_far = [] {
    rusage use{};
    EXPECT_EQ(::getrusage(RUSAGE_THREAD, &use), 0);
    return use.ru_nvcsw;
  };
  const long before = so_far();
  for (int i = 0; i < pauses; ++i) idle.pause();
  return so_far() - before;
}

// A page that comes from a disk gives the core away too, and a sleep that is over before it begins
// does not.
constexpr long few = 5;

TEST(IdleWaitTest, SleepsOnlyAfterManyLooks) {
  IdleWait idle(std::chrono::seconds(0));
  EXPECT_LT(sleeps(idle, 200), few);
  EXPECT_GT(sleeps(idle, 200), 100);
}

TEST(IdleWaitTest, DoesNotSleepWhileItIsAttentive) {
  IdleWait idle(std::chrono::hours(1));
  EXPECT_LT(sleeps(idle, 2000), few);
}

TEST(IdleWaitTest, BeginsAnewWhereSomethingWasFound) {
  IdleWait idle(std::chrono::seconds(0));
  sleeps(idle, 220);
  idle.restart();
  EXPECT_LT(sleeps(idle, 200), few);
  EXPECT_GT(sleeps(idle, 200), 100);
}

}  // namespace
}  // namespace tandem
