#include <gtest/gtest.h>

#include "parallel/communicator.h"
#include "support/spoken_words.h"

namespace tandem {
namespace {

using testing::expect_spoken;

TEST(FatalErrorTest, IsSpokenOfWithTheStep) {
  expect_spoken(7, "^step 7: rank 1 on a ended$", [] { throw RankEnded("rank 1 on a ended"); });
  expect_spoken(7, "^step 7: waited 4 s in barrier for rank 1$",
                [] { throw CommunicationTimeout("waited 4 s in barrier", "for rank 1"); });
}

TEST(FatalErrorTest, IsSpokenOfWithTheStepThatItNames) {
  expect_spoken(7, "^step 8: rank 1 on a ended$",
                [] { throw RankEnded("step 8: rank 1 on a ended"); });
}

TEST(FatalErrorTest, IsSpokenOfAsItIsBeforeTheFirstStep) {
  expect_spoken(0, "^rank 1 on a ended$", [] { throw RankEnded("rank 1 on a ended"); });
}

}  // namespace
}  // namespace tandem
