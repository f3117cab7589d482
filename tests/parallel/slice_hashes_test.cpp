#include "parallel/slice_hashes.h"

#include <gtest/gtest.h>

#include <bit>

#include "support/message.h"

namespace tandem {
namespace {

const std::vector<ParameterSlice> slices{
    {"fc.bias", 0, 10}, {"fc.weight", 16, 640}, {"empty", 656, 0}, {"conv.weight", 656, 27}};
constexpr std::size_t count = 700;

SliceHashes hashes_of(std::vector<float>& arena, int threads = 1) {
  AnyContext context(std::in_place_type<CpuContext>, threads);
  return hash_slices(context, {arena.data(), {static_cast<std::int64_t>(arena.size())}}, slices);
}

std::vector<float> values() {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) - 3.0F;
  return values;
}

TEST(SliceHashes, ChangeWithEachBitOfTheirSliceAndNoOther) {
  std::vector<float> arena = values();
  const SliceHashes before = hashes_of(arena);
  ASSERT_EQ(before.slices.size(), slices.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (const int bit : {0, 13, 31}) {
      arena = values();
      arena[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(arena[i]) ^ (1U << bit));
      const SliceHashes after = hashes_of(arena);
      EXPECT_NE(after.whole, before.whole) << i;
      for (std::size_t s = 0; s < slices.size(); ++s) {
        const auto at = static_cast<std::int64_t>(i);
        const bool inside = at >= slices[s].offset && at < slices[s].offset + slices[s].elements;
        EXPECT_EQ(after.slices[s] != before.slices[s], inside) << slices[s].name << " by " << i;
      }
    }
  }
}

TEST(SliceHashes, ChangeWhereElementsAreSwapped) {
  std::vector<float> arena = values();
  const SliceHashes before = hashes_of(arena);
  std::swap(arena[20], arena[21]);
  EXPECT_NE(hashes_of(arena).slices[1], before.slices[1]);
  std::swap(arena[20], arena[21]);
  EXPECT_EQ(hashes_of(arena).slices, before.slices);
}

TEST(SliceHashes, AreTheSameWithMoreThreads) {
  std::vector<float> arena = values();
  EXPECT_EQ(hashes_of(arena, 3).slices, hashes_of(arena).slices);
  EXPECT_EQ(hashes_of(arena, 3).whole, hashes_of(arena).whole);
}

TEST(SliceHashes, RefuseSlicesThatAreNotInTheArena) {
  std::vector<float> arena(682);
  const std::string message = message_of<Error>([&] { hashes_of(arena); });
  EXPECT_NE(message.find("slice conv.weight (27 elements at 656) lies outside"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace tandem
