#include "base/median.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Median, IsTheMiddleOneOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({3.0}), 3.0);
  EXPECT_EQ(median({5.0, 1.0, 3.0}), 3.0);
  EXPECT_EQ(median({4.0, 1.0, 100.0, 2.0}), 3.0);
}

TEST(Median, OfNothingIsAnError) { EXPECT_THROW(median({}), Error); }

}  // namespace
}  // namespace tandem
