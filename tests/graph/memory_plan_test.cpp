#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/philox.h"

namespace tandem {
namespace {

std::vector<BufferLifetime> draw_lifetimes(std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<BufferLifetime> buffers(1 + random.below(40));
  for (BufferLifetime& buffer : buffers) {
    buffer.bytes = 1 + random.below(5000);
    buffer.first = static_cast<int>(random.below(30));
    buffer.last = buffer.first + static_cast<int>(random.below(12));
  }
  return buffers;
}

/// Largest sum of what is alive at one tick.
std::size_t peak(const std::vector<BufferLifetime>& buffers) {
  std::size_t most = 0;
  for (int tick = 0; tick < 50; ++tick) {
    std::size_t alive = 0;
    for (const BufferLifetime& buffer : buffers) {
      if (buffer.first <= tick && tick <= buffer.last) alive += buffer.bytes;
    }
    most = std::max(most, alive);
  }
  return most;
}

/// What is lent in pieces, with holes between some of them, each kept from a tick on or for good.
LentMemory draw_loan(std::uint64_t seed) {
  RandomStream random(seed, "loan");
  LentMemory lent;
  for (std::uint64_t pieces = 1 + random.below(20); pieces > 0; --pieces) {
    const std::size_t bytes = 1 + random.below(4000);
    const int first = random.below(4) == 0 ? 0 : static_cast<int>(random.below(45));
    const int last = random.below(4) == 0 ? first + static_cast<int>(random.below(9)) : 50;
    if (random.below(5) > 0) {
      lent.kept.push_back(
          {.offset = lent.bytes, .buffer = {.bytes = bytes, .first = first, .last = last}});
    }
    lent.bytes += bytes;
  }
  return lent;
}

/// Some of them are a second queue's.
std::vector<BufferLifetime> draw_lifetimes_of_two_queues(std::uint64_t seed) {
  std::vector<BufferLifetime> buffers = draw_lifetimes(seed);
  RandomStream random(seed, "queues");
  for (BufferLifetime& buffer : buffers) {
    if (random.below(2) == 0) continue;
    buffer.aside_last = buffer.last;
    buffer.last += static_cast<int>(random.below(6));
  }
  return buffers;
}

bool at_the_same_time(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

bool in_the_same_place(const PlacedBuffer& a, const PlacedBuffer& b) {
  return a.offset < b.offset + b.buffer.bytes && b.offset < a.offset + a.buffer.bytes;
}

TEST(MemoryPlan, LiveBuffersNeverOverlap) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<BufferLifetime> buffers = draw_lifetimes(seed);
    const MemoryPlan plan = plan_memory(buffers);
    ASSERT_EQ(plan.offsets.size(), buffers.size());
    std::size_t total = 0;
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 256, 0U);
      EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.bytes);
      total += (buffers[a].bytes + 255) / 256 * 256;
      for (std::size_t b = 0; b < a; ++b) {
        ASSERT_FALSE(
            at_the_same_time(buffers[a], buffers[b]) &&
            in_the_same_place({plan.offsets[a], buffers[a]}, {plan.offsets[b], buffers[b]}))
            << "seed " << seed << ": " << a << " and " << b;
      }
    }
    EXPECT_GE(plan.bytes, peak(buffers));
    EXPECT_LE(plan.bytes, total);
  }
}

TEST(MemoryPlan, BuffersOfOtherTimesShareTheirPlace) {
  const MemoryPlan plan = plan_memory(std::vector<BufferLifetime>{
      {.bytes = 2560, .first = 0, .last = 1},
      {.bytes = 256, .first = 1, .last = 2},
      {.bytes = 2560, .first = 2, .last = 3},
  });
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.bytes, 2816U);
}

TEST(MemoryPlan, FillsHolesBetweenLargerBuffers) {
  const MemoryPlan plan = plan_memory(std::vector<BufferLifetime>{
      {.bytes = 1024, .first = 0, .last = 9},
      {.bytes = 512, .first = 0, .last = 3},
      {.bytes = 256, .first = 0, .last = 9},
      {.bytes = 128, .first = 5, .last = 9},
  });
  EXPECT_EQ(plan.bytes, 1024U + 512U + 256U);
}

TEST(MemoryPlan, ASecondQueueTakesUpWhatItIsDoneWith) {
  // Its own next one may lie there at once, another one only when the queue has been waited for.
  const BufferLifetime first{.bytes = 512, .first = 3, .last = 7, .aside_last = 3};
  BufferLifetime second{.bytes = 512, .first = 4, .last = 8, .aside_last = 4};
  EXPECT_FALSE(live_together(first, second));
  EXPECT_EQ(plan_memory(std::vector{first, second}).bytes, 512U);
  second.aside_last = -1;
  EXPECT_TRUE(live_together(first, second));
  EXPECT_TRUE(live_together(second, first));
  EXPECT_EQ(plan_memory(std::vector{first, second}).bytes, 1024U);
  second.first = 8;
  EXPECT_FALSE(live_together(second, first));
  second = {.bytes = 512, .first = 3, .last = 7, .aside_last = 5};
  EXPECT_TRUE(live_together(first, second));
}

TEST(MemoryPlan, BuffersOfTwoQueuesNeverOverlapWhileTheyLive) {
  std::size_t saved = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<BufferLifetime> buffers = draw_lifetimes_of_two_queues(seed);
    const MemoryPlan plan = plan_memory(buffers);
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool both = buffers[a].aside_last >= 0 && buffers[b].aside_last >= 0;
        const bool together = both ? buffers[a].first <= buffers[b].aside_last &&
                                         buffers[b].first <= buffers[a].aside_last
                                   : at_the_same_time(buffers[a], buffers[b]);
        ASSERT_FALSE(together && in_the_same_place({plan.offsets[a], buffers[a]},
                                                   {plan.offsets[b], buffers[b]}))
            << "seed " << seed << ": " << a << " and " << b;
      }
    }
    for (BufferLifetime& buffer : buffers) buffer.aside_last = -1;
    saved += plan.bytes < plan_memory(buffers).bytes ? 1 : 0;
  }
  EXPECT_GT(saved, 100U);
}

TEST(MemoryPlan, TriesOrdersUntilNoneCouldBeBetter) {
  std::size_t least = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<BufferLifetime> buffers = draw_lifetimes(seed);
    for (BufferLifetime& buffer : buffers) buffer.bytes = (buffer.bytes + 255) / 256 * 256;
    EXPECT_EQ(least_memory(buffers), peak(buffers)) << "seed " << seed;
    least += plan_memory(buffers).bytes == peak(buffers) ? 1 : 0;
  }
  EXPECT_GT(least, 270U) << "the largest first alone: about 180";
}

TEST(MemoryPlan, OfNothingIsEmpty) {
  EXPECT_EQ(plan_memory({}).bytes, 0U);
  EXPECT_EQ(plan_memory({}, {.bytes = 1024, .kept = {}}).bytes, 0U);
}

TEST(MemoryPlan, NothingOverlapsWhatALenderKeeps) {
  int used = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<BufferLifetime> buffers = draw_lifetimes(seed);
    const LentMemory lent = draw_loan(seed);
    const MemoryPlan plan = plan_memory(buffers, lent);
    ASSERT_EQ(plan.offsets.size(), buffers.size());
    ASSERT_LE(plan.lent_bytes, lent.bytes);
    std::vector<PlacedBuffer> placed;
    const auto overlaps = [](const PlacedBuffer& here, const std::vector<PlacedBuffer>& others) {
      return std::ranges::any_of(others, [&](const PlacedBuffer& other) {
        return at_the_same_time(here.buffer, other.buffer) && in_the_same_place(here, other);
      });
    };
    bool in_loan = false;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      SCOPED_TRACE(i);
      const PlacedBuffer here{.offset = plan.offsets[i], .buffer = buffers[i]};
      const std::size_t end = here.offset + here.buffer.bytes;
      EXPECT_EQ(here.offset % 256, 0U);
      ASSERT_FALSE(overlaps(here, placed));
      if (here.offset < plan.lent_bytes) {
        in_loan = true;
        EXPECT_LE(end, plan.lent_bytes) << "lies in both blocks";
        ASSERT_FALSE(overlaps(here, lent.kept));
      } else {
        EXPECT_LE(end, plan.lent_bytes + plan.bytes);
      }
      placed.push_back(here);
    }
    EXPECT_LE(plan.bytes, plan_memory(buffers).bytes);
    EXPECT_GE(plan.bytes + lent.bytes, peak(buffers));
    used += in_loan ? 1 : 0;
  }
  EXPECT_GT(used, 200);
}

TEST(MemoryPlan, ALoanHoldsWhatLivesWhileItsOwnerKeepsNothing) {
  const LentMemory lent{
      .bytes = 1024,
      .kept = {{.offset = 0, .buffer = {.bytes = 512, .first = 5, .last = 9}},
               {.offset = 512, .buffer = {.bytes = 512, .first = 7, .last = 9}}},
  };
  const MemoryPlan plan = plan_memory(
      std::vector<BufferLifetime>{
          {.bytes = 512, .first = 0, .last = 9},
          {.bytes = 512, .first = 0, .last = 4},
          {.bytes = 512, .first = 0, .last = 6},
          {.bytes = 512, .first = 8, .last = 9},
      },
      lent);
  EXPECT_EQ(plan.lent_bytes, 1024U);
  EXPECT_EQ(plan.offsets[0], 1024U);
  EXPECT_EQ(plan.offsets[1], 0U);
  EXPECT_EQ(plan.offsets[2], 512U);
  EXPECT_EQ(plan.offsets[3], 1024U + 512U);
  EXPECT_EQ(plan.bytes, 1024U);
}

TEST(MemoryPlan, TakesNoLoanThatSavesNothing) {
  const std::vector<BufferLifetime> buffers{{.bytes = 512, .first = 0, .last = 3},
                                            {.bytes = 256, .first = 0, .last = 3}};
  const std::vector<PlacedBuffer> kept{
      {.offset = 0, .buffer = {.bytes = 700, .first = 3, .last = 9}}};
  const MemoryPlan plan = plan_memory(buffers, {.bytes = 700, .kept = kept});
  EXPECT_EQ(plan.lent_bytes, 0U);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{0, 512}));
  EXPECT_EQ(plan.bytes, 768U);
}

TEST(MemoryPlan, ABufferLiesInOneBlock) {
  // The lent block is free throughout but at its end, and too short by what is not a whole 256
  // bytes of it.
  const std::vector<PlacedBuffer> kept{
      {.offset = 700, .buffer = {.bytes = 300, .first = 0, .last = 9}}};
  const MemoryPlan plan =
      plan_memory(std::vector<BufferLifetime>{{.bytes = 1000, .first = 0, .last = 3},
                                              {.bytes = 512, .first = 0, .last = 3}},
                  {.bytes = 1000, .kept = kept});
  EXPECT_EQ(plan.lent_bytes, 768U);
  EXPECT_EQ(plan.offsets, (std::vector<std::size_t>{768, 0}));
  EXPECT_EQ(plan.bytes, 1024U);
}

TEST(MemoryPlan, PlacesAgainWhatReachedHighest) {
  // The largest first, 1024 bytes would be needed for the others.
  const MemoryPlan plan =
      plan_memory(std::vector<BufferLifetime>{{.bytes = 768, .first = 0, .last = 3},
                                              {.bytes = 512, .first = 0, .last = 3},
                                              {.bytes = 512, .first = 0, .last = 3}},
                  {.bytes = 1024, .kept = {}});
  EXPECT_EQ(plan.bytes, 768U);
}

}  // namespace
}  // namespace tandem
