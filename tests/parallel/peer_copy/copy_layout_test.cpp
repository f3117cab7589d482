#include "parallel/peer_copy/copy_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

void expect_shares_fill(const CopyLayout& layout, const ArenaRange& slice, int ranks) {
  std::int64_t reached = slice.begin;
  for (int rank = 0; rank < ranks; ++rank) {
    const ArenaRange share = layout.share(rank);
    ASSERT_EQ(share.begin, reached);
    ASSERT_GT(share.elements(), 0);
    ASSERT_EQ((share.begin - slice.begin) % 32, 0);
    reached = share.end;
  }
  ASSERT_EQ(reached, slice.end);
}

void expect_places_apart(const CopyLayout& layout, const ArenaRange& slice, int ranks, int owner) {
  std::int64_t reached = slice.begin;
  for (int from = 0; from < ranks; ++from) {
    if (from == owner) continue;
    const ArenaRange place = layout.place(owner, from);
    ASSERT_GE(place.begin, reached) << "over the contribution before it";
    ASSERT_EQ(place.elements(), layout.share(owner).elements());
    ASSERT_EQ((place.begin - layout.share(owner).begin) % 32, 0);
    reached = place.end;
  }
  ASSERT_LE(reached, slice.end) << "into what belongs to other slices";
}

TEST(CopyLayout, ContributionsFindRoomWithinTheirSlice) {
  for (const std::int64_t begin : {0, 1, 16, 33, 1000}) {
    for (const std::int64_t elements : {31, 33, 64, 100, 257, 2000, 4096, 70'001, 1'000'003}) {
      for (const int ranks : {2, 3, 4, 7, 8, 16}) {
        const ArenaRange slice{begin, begin + elements};
        const CopyLayout layout(slice, ranks);
        if (!layout.fits()) continue;
        expect_shares_fill(layout, slice, ranks);
        for (int owner = 0; owner < ranks; ++owner) {
          expect_places_apart(layout, slice, ranks, owner);
        }
      }
    }
  }
}

TEST(CopyLayout, OnlyShortSlicesDoNotFit) {
  for (const int ranks : {2, 3, 4, 7, 8, 16}) {
    for (const std::int64_t elements : {0, 1, 32}) {
      EXPECT_FALSE(CopyLayout({64, 64 + elements}, ranks).fits()) << elements;
    }
    const std::int64_t enough = std::int64_t{32} * ranks * ranks;
    for (std::int64_t elements = enough; elements < enough + 200; ++elements) {
      EXPECT_TRUE(CopyLayout({64, 64 + elements}, ranks).fits()) << elements;
    }
  }
}

TEST(CopyLayout, TwoRanksGiveEachOtherTheOthersHalf) {
  const CopyLayout layout({128, 128 + 256}, 2);
  EXPECT_EQ(layout.share(0), (ArenaRange{128, 256}));
  EXPECT_EQ(layout.share(1), (ArenaRange{256, 384}));
  EXPECT_EQ(layout.place(0, 1), (ArenaRange{128, 256}));
  EXPECT_EQ(layout.place(1, 0), (ArenaRange{128, 256}));
}

}  // namespace
}  // namespace tandem
