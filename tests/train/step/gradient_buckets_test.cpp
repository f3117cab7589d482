#include "train/step/gradient_buckets.h"

#include <gtest/gtest.h>

#include "graph/fusion.h"
#include "graph/model_file.h"
#include "train/small_run.h"

namespace tandem {
namespace {

class GradientBuckets : public testing::Test {
 protected:
  std::vector<Bucket> cut(GradientMemory memory, SumCost cost = SumCost::usual) {
    return gradient_buckets(config_, store_, cost, memory);
  }

  RunConfig config_ = small_run();
  AnyContext context_ = CpuContext(1);
  Graph graph_ = fuse(smooth_graph(config_, 4));
  ParameterStore store_{graph_, context_, /*with_gradients=*/false};
};

TEST_F(GradientBuckets, AreOfAsManyBytesAsTheConfigSays) {
  EXPECT_EQ(cut(GradientMemory::stored).size(), 1U) << "less than a mebibyte";
  config_.bucket_bytes = 4;
  EXPECT_EQ(cut(GradientMemory::stored).size(), store_.trained().size()) << "the first too";
  config_.first_bucket_bytes = 1 << 20;
  EXPECT_EQ(cut(GradientMemory::stored).size(), 1U);
}

TEST_F(GradientBuckets, AreOneWhereEachSumIsSlow) {
  config_.first_bucket_bytes = 4;
  EXPECT_EQ(cut(GradientMemory::stored, SumCost::each_slow).size(), 2U)
      << "as it says of the first";
  config_.first_bucket_bytes.reset();
  config_.bucket_bytes = 4;
  EXPECT_EQ(cut(GradientMemory::stored, SumCost::each_slow).size(), store_.trained().size());
  Graph large = fuse(load_model(find_model("resnet18"), {}));
  const ParameterStore store(large, context_, /*with_gradients=*/false);
  config_.bucket_bytes.reset();
  EXPECT_GT(gradient_buckets(config_, store, SumCost::usual, GradientMemory::stored).size(), 2U);
  const auto one = gradient_buckets(config_, store, SumCost::each_slow, GradientMemory::stored);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].last, store.trained().size());
}

TEST_F(GradientBuckets, ThatPassHoldWeightsOrWhatNormalises) {
  const std::vector<Bucket> passing = cut(GradientMemory::passing);
  ASSERT_EQ(passing.size(), 2U);
  EXPECT_EQ(passing[0].last, store_.first_trained_norm());
  const std::vector<ParameterRange> groups = groups_of(passing);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].first, 0U);
  EXPECT_EQ(groups[0].last, groups[1].first);
  EXPECT_EQ(groups[1].last, store_.trained().size());
}

TEST_F(GradientBuckets, HaveASliceForEachParameter) {
  const std::vector<ParameterSlice> slices = slices_of(store_.trained());
  ASSERT_EQ(slices.size(), store_.trained().size());
  EXPECT_EQ(slices[1].name, store_.trained()[1].name);
  EXPECT_EQ(slices[1].offset, store_.trained()[1].offset);
  EXPECT_EQ(slices[1].elements, store_.trained()[1].shape.elements());
}

}  // namespace
}  // namespace tandem
