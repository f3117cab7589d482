#include "parallel/mapped/flag_barrier.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/philox.h"

namespace tandem {
namespace {

TEST(FlagBarrier, TellsEveryOtherThenAwaitsEveryOther) {
  using Kind = FlagStep;
  const std::vector<FlagStep> expected{{Kind::write, 0, 3 + 1, 1}, {Kind::write, 2, 3 + 1, 1},
                                       {Kind::await, 1, 3 + 0, 1}, {Kind::write, 1, 3 + 0, 0},
                                       {Kind::await, 1, 3 + 2, 1}, {Kind::write, 1, 3 + 2, 0}};
  EXPECT_EQ(flag_barrier(3, 1, 1), expected);
  EXPECT_TRUE(flag_barrier(1, 0, 0).empty());
}

/// Processes as threads, their inboxes as arrays.
class Processes {
 public:
  explicit Processes(int members) : members_(members) {
    for (int m = 0; m < members; ++m) {
      inboxes_.push_back(std::make_unique<std::atomic<std::uint32_t>[]>(
          static_cast<std::size_t>(flag_count(members))));
    }
  }

  void pass(int member, int phase) {
    for (const FlagStep& step : flag_barrier(members_, member, phase)) {
      std::atomic<std::uint32_t>& flag =
          inboxes_[static_cast<std::size_t>(step.inbox)][static_cast<std::size_t>(step.flag)];
      if (step.kind == FlagStep::write) {
        // A flag that is written twice before it is seen has lost an arrival.
        if (flag.exchange(step.value) == step.value) ++lost_;
      } else {
        while (flag.load() != step.value) std::this_thread::yield();
      }
    }
  }
  int lost() const { return lost_; }

 private:
  int members_;
  std::vector<std::unique_ptr<std::atomic<std::uint32_t>[]>> inboxes_;
  std::atomic<int> lost_ = 0;
};

/// Every thread counts up, passes a barrier, looks at the others' counts, passes another.
void expect_nobody_ahead(int members) {
  constexpr int rounds = 60;
  Processes processes(members);
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(members));
  std::atomic<int> wrong = 0;
  const auto run = [&](int member) {
    RandomStream random(7, static_cast<std::uint64_t>(member));
    for (int round = 1; round <= rounds; ++round) {
      if (random.uniform() < 0.05F) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      counts[static_cast<std::size_t>(member)] = round;
      processes.pass(member, 0);
      for (const std::atomic<int>& count : counts) wrong += count != round;
      processes.pass(member, 1);
    }
  };
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) threads.emplace_back(run, member);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << members;
  EXPECT_EQ(processes.lost(), 0) << members;
}

TEST(FlagBarrier, LetsNobodyPassBeforeAllAreThere) {
  for (const int members : {1, 2, 3, 4, 7}) expect_nobody_ahead(members);
}

}  // namespace
}  // namespace tandem
