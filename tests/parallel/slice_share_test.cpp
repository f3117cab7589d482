#include "parallel/slice_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

TEST(SliceShare, SharesFillTheSliceAndMeetAtLines) {
  for (const std::int64_t begin : {0, 1, 31, 32, 33, 1000}) {
    for (const std::int64_t elements : {0, 1, 2, 31, 32, 33, 64, 100, 257, 4096, 1'000'003}) {
      for (const int members : {1, 2, 3, 4, 5, 8, 64}) {
        const ArenaRange slice{begin, begin + elements};
        std::int64_t reached = slice.begin;
        for (int member = 0; member < members; ++member) {
          const ArenaRange share = share_of(slice, members, member);
          ASSERT_EQ(share.begin, reached);
          ASSERT_LE(share.begin, share.end);
          ASSERT_LE(share.elements(), elements / members + 32);
          if (share.begin != slice.begin && share.begin != slice.end) {
            ASSERT_EQ(share.begin % 32, 0);
          }
          reached = share.end;
        }
        ASSERT_EQ(reached, slice.end);
      }
    }
  }
}

TEST(SliceShare, PacksWithWhatIsAroundThemAreTheRange) {
  for (std::int64_t begin = 0; begin < 9; ++begin) {
    for (std::int64_t elements = 0; elements < 40; ++elements) {
      const ArenaRange range{begin, begin + elements};
      const PackedRange packed(range);
      std::vector<int> walked(64);
      const auto walk = [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) ++walked[static_cast<std::size_t>(i)];
      };
      walk(packed.head.begin, packed.head.end);
      walk(4 * packed.first, 4 * packed.last);
      walk(packed.tail.begin, packed.tail.end);
      for (std::int64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(walked[static_cast<std::size_t>(i)], i >= range.begin && i < range.end ? 1 : 0)
            << begin << " " << elements << " " << i;
      }
      EXPECT_LT(packed.head.elements(), packed.first < packed.last ? 4 : 7);
      EXPECT_LT(packed.tail.elements(), 4);
    }
  }
}

}  // namespace
}  // namespace tandem
