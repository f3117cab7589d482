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
        const bool same_time =
            buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
        const bool same_place = plan.offsets[a] < plan.offsets[b] + buffers[b].bytes &&
                                plan.offsets[b] < plan.offsets[a] + buffers[a].bytes;
        ASSERT_FALSE(same_time && same_place) << "seed " << seed << ": " << a << " and " << b;
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

TEST(MemoryPlan, OfNothingIsEmpty) { EXPECT_EQ(plan_memory({}).bytes, 0U); }

}  // namespace
}  // namespace tandem
