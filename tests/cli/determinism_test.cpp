#include "cli/run_folder.h"

// The same command twice gives the same bits.

namespace tandem::cli {
namespace {

class Determinism : public RunTest, public testing::WithParamInterface<int> {};

TEST_P(Determinism, TwoRunsAreBitEqualWhateverTheLoadersThreads) {
  const int ranks = GetParam();
  trained("a", set({"train.epochs=2"}), ranks);
  trained("b", set({"train.epochs=2"}), ranks);
  trained("c", set({"train.epochs=2", "data.workers=3", "data.prefetch=7"}), ranks);
  trained("other", set({"train.epochs=2", "train.seed=2"}), ranks);
  for (const char* same : {"b", "c"}) {
    EXPECT_EQ(train_losses(path("a")), train_losses(path(same)));
    expect_same_checkpoint(checkpoint(path("a"), 16), checkpoint(path(same), 16));
  }
  EXPECT_NE(train_losses(path("a")), train_losses(path("other")));
  EXPECT_GT(largest_difference(checkpoint(path("a"), 16), checkpoint(path("other"), 16)), 0.01);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Determinism, testing::Values(1, 2));

}  // namespace
}  // namespace tandem::cli
