#include "parallel/colocated/shared_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/philox.h"
#include "parallel/self_communicator.h"

// Threads in the place of processes: sanitizers see them all.

namespace tandem {
namespace {

struct alignas(SharedSumLayout::line) Line {
  std::byte bytes[SharedSumLayout::line];
};

/// Zeroed memory for one SharedSum of each rank.
class Memory {
 public:
  explicit Memory(const SharedSumLayout& layout)
      : lines_((layout.counter_bytes() +
                static_cast<std::size_t>(layout.windows) * layout.window_bytes()) /
               sizeof(Line)) {}
  std::byte* data() { return lines_.data()->bytes; }

 private:
  std::vector<Line> lines_;
};

void on_ranks(int ranks, const std::function<void(int)>& function) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { function(rank); });
  for (std::thread& thread : threads) thread.join();
}

void wait(SharedSum& sum, std::int64_t number) {
  while (!sum.done(number)) {
    if (!sum.progress()) std::this_thread::yield();
  }
}

template <typename T>
T value(int rank, std::size_t message, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 17 + message * 5 + i * 3) % 29);
}

template <typename T>
T expected(int ranks, ReduceOp op, std::size_t message, std::size_t i) {
  T result = value<T>(0, message, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const T next = value<T>(rank, message, i);
    if (op == ReduceOp::sum) result = static_cast<T>(result + next);
    if (op == ReduceOp::max) result = std::max(result, next);
    if (op == ReduceOp::min) result = std::min(result, next);
  }
  return result;
}

/// Messages of many lengths, all begun before the first is waited for, tested in between.
template <typename T>
void expect_reduced(const SharedSumLayout& layout, ReduceOp op, bool exchanged = false) {
  constexpr std::size_t lengths[] = {1, 0, 1000, 16, 17, 333, 4096, 5};
  Memory memory(layout);
  SelfCommunicator alone;
  std::vector<std::vector<std::vector<T>>> values(static_cast<std::size_t>(layout.ranks));
  on_ranks(layout.ranks, [&](int rank) {
    auto& mine = values[static_cast<std::size_t>(rank)];
    SharedSum sum(memory.data(), layout,
                  {.rank = rank,
                   .several_hosts = exchanged,
                   .leaders = exchanged && rank == 0 ? &alone : nullptr});
    for (std::size_t m = 0; m < std::size(lengths); ++m) {
      mine.emplace_back(lengths[m]);
      for (std::size_t i = 0; i < lengths[m]; ++i) mine[m][i] = value<T>(rank, m, i);
    }
    std::vector<std::int64_t> numbers;
    RandomStream random(3, static_cast<std::uint64_t>(rank));
    for (auto& message : mine) {
      const auto elements = static_cast<std::int64_t>(message.size());
      numbers.push_back(sum.begin(Tensor(message.data(), {elements}, DTypeOf<T>::value), op));
      for (std::uint64_t i = random.below(3); i > 0; --i) sum.progress();
    }
    for (const std::int64_t number : numbers) wait(sum, number);
  });
  for (const auto& of_rank : values) {
    for (std::size_t m = 0; m < std::size(lengths); ++m) {
      for (std::size_t i = 0; i < lengths[m]; ++i) {
        ASSERT_EQ(of_rank[m][i], expected<T>(layout.ranks, op, m, i)) << m << " " << i;
      }
    }
  }
}

TEST(SharedSum, ReducesWhateverTheRanksThePiecesAndTheWindows) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const std::size_t piece : {64U, 192U, 8192U}) {
      for (const std::int64_t windows : {1, 2, 5}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << piece << " bytes, " << windows);
        expect_reduced<float>({.ranks = ranks, .piece_bytes = piece, .windows = windows},
                              ReduceOp::sum);
      }
    }
  }
}

TEST(SharedSum, ReducesEveryTypeInEveryWay) {
  const SharedSumLayout layout{.ranks = 3, .piece_bytes = 256, .windows = 2};
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    expect_reduced<float>(layout, op);
    expect_reduced<std::int32_t>(layout, op);
    expect_reduced<std::int64_t>(layout, op);
    expect_reduced<std::uint8_t>(layout, op);
  }
}

TEST(SharedSum, TakesWhatTheLeadersBring) {
  expect_reduced<float>({.ranks = 3, .piece_bytes = 128, .windows = 3}, ReduceOp::sum, true);
}

/// Rounds of slices of arenas, between which each rank writes its arena anew, beside messages that
/// go through windows.
void expect_sums_in_place(const SharedSumLayout& layout, bool exchanged) {
  constexpr std::int64_t elements = 1000;
  constexpr std::int64_t slices[][2] = {{0, 300}, {304, 1}, {320, 680}};  // first, count
  constexpr std::size_t rounds = 20;
  const auto ranks = static_cast<std::size_t>(layout.ranks);
  Memory memory(layout);
  SelfCommunicator alone;
  std::vector<float> all(ranks * elements);
  std::vector<float> sums(elements, -1.0F);
  std::atomic<int> wrong = 0;
  const SharedArenas arenas{.first = reinterpret_cast<const std::byte*>(all.data()),
                            .stride = elements * sizeof(float)};
  on_ranks(layout.ranks, [&](int rank) {
    SharedSum sum(memory.data(), layout,
                  {.rank = rank,
                   .several_hosts = exchanged,
                   .leaders = exchanged && rank == 0 ? &alone : nullptr});
    float* mine = all.data() + static_cast<std::size_t>(rank) * elements;
    RandomStream random(7, static_cast<std::uint64_t>(rank));
    for (std::size_t round = 0; round < rounds; ++round) {
      if (random.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      for (std::size_t i = 0; i < elements; ++i) mine[i] = value<float>(rank, round, i);
      std::vector<float> message(40, 1.0F);
      std::int64_t last = 0;
      for (const auto& [first, count] : slices) {
        sum.begin_in_place(arenas, sums.data(), first, count);
        last = sum.begin(Tensor(message.data(), {40}), ReduceOp::max);
        for (std::uint64_t i = random.below(3); i > 0; --i) sum.progress();
      }
      wait(sum, last);
      for (const auto& [first, count] : slices) {
        for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + count);
             ++i) {
          wrong += sums[i] != expected<float>(layout.ranks, ReduceOp::sum, round, i) ? 1 : 0;
        }
      }
      wrong += sums[302] != -1.0F || message[39] != 1.0F ? 1 : 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(SharedSum, SumsArenasWhereTheyLie) {
  for (const int ranks : {1, 2, 4}) {
    for (const std::size_t piece : {64U, 8192U}) {
      for (const std::int64_t windows : {1, 3}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << piece << " bytes, " << windows);
        const SharedSumLayout layout{.ranks = ranks, .piece_bytes = piece, .windows = windows};
        expect_sums_in_place(layout, false);
        expect_sums_in_place(layout, true);
      }
    }
  }
}

TEST(SharedSum, DoesNothingAloneAndSaysSo) {
  const SharedSumLayout layout{.ranks = 2, .piece_bytes = 64, .windows = 1};
  Memory memory(layout);
  SharedSum first(memory.data(), layout, {.rank = 0});
  SharedSum second(memory.data(), layout, {.rank = 1});
  std::vector<float> a{1.0F, 2.0F};
  std::vector<float> b{10.0F, 20.0F};
  const std::int64_t number = first.begin(Tensor(a.data(), {2}), ReduceOp::sum);
  EXPECT_FALSE(first.progress());
  EXPECT_FALSE(first.done(number));
  second.begin(Tensor(b.data(), {2}), ReduceOp::sum);
  EXPECT_TRUE(first.progress());
  EXPECT_TRUE(first.done(number));
  EXPECT_FALSE(second.done(number));
  EXPECT_TRUE(second.progress());
  EXPECT_EQ(a, (std::vector<float>{11.0F, 22.0F}));
  EXPECT_EQ(b, a);
}

}  // namespace
}  // namespace tandem
