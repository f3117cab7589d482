#include "tensor/shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{5}).elements(), 5);
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).elements(), 0);
  EXPECT_EQ((Shape{100000, 100000}).elements(), 10000000000);
}

TEST(Shape, KnowsItsExtents) {
  const Shape shape{32, 8, 8, 64};
  EXPECT_EQ(shape.rank(), 4U);
  EXPECT_EQ(shape[0], 32);
  EXPECT_EQ(shape[3], 64);
  EXPECT_EQ(shape.extents().size(), 4U);
  EXPECT_THROW(shape[4], Error);
  EXPECT_EQ(shape.text(), "32x8x8x64");
  EXPECT_EQ(Shape().text(), "scalar");
}

TEST(Shape, ComparesByExtentsAndRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Shape, RejectsWhatIsNoShape) {
  EXPECT_NO_THROW((Shape{1, 1, 1, 1, 1, 1}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{2, -1}), Error);
  const std::vector<std::int64_t> extents{4, -2};
  EXPECT_THROW((Shape(std::span<const std::int64_t>(extents))), Error);
}

TEST(Shape, RejectsMoreElementsThanCanBeCounted) {
  constexpr std::int64_t large = std::int64_t{1} << 32U;
  EXPECT_THROW((Shape{large, large}).elements(), Error);
  EXPECT_EQ((Shape{large, large, 0}).elements(), 0);
}

}  // namespace
}  // namespace tandem
