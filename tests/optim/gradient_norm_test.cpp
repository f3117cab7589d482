#include "optim/gradient_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "optim/small_arena.h"

namespace tandem {
namespace {

TEST(GradientNorm, IsThatOfWhatTheSlicesCover) {
  std::vector<float> values = random_values("gradients");
  double sum = 0.0;
  for (const ParameterGroupSlice& slice : slices) {
    for (std::int64_t i = slice.offset; i < slice.offset + slice.elements; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      sum += value * value;
    }
  }
  double first = 0.0;
  for (const int threads : {1, 2, 3}) {
    AnyContext context = CpuContext(threads);
    GradientNorm norm(context, slices);
    const double found = norm.measure(view(values));
    EXPECT_NEAR(found, std::sqrt(sum), 1e-10 * std::sqrt(sum));
    if (threads == 1) first = found;
    EXPECT_EQ(found, first) << "the same bits for any number of threads";
  }
}

TEST(GradientNorm, DoesNotOverflowWhereSquaresOfFloatsWould) {
  AnyContext context = CpuContext(1);
  std::vector<float> values(4, 1e30F);
  const std::vector<ParameterGroupSlice> all{{0, 4, 0.0F}};
  EXPECT_NEAR(GradientNorm(context, all).measure(view(values)), 2e30, 1e24);
}

TEST(ClipFactor, IsTorchs) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_factor(10.0, 2.5), 2.5 / (10.0 + 1e-6));
}

}  // namespace
}  // namespace tandem
