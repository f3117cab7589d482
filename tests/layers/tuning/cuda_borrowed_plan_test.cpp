#include <gtest/gtest.h>

#include "device/cuda_context.h"
#include "device/cuda_libraries.h"
#include "layers/convolution/conv2d.h"
#include "layers/plans/convolution_direct.h"
#include "layers/tuning/plan_tuner.h"
#include "support/lent_choices.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"

// What a device takes of the choices that are kept for one with more multiprocessors.

namespace tandem {
namespace {

class CudaBorrowedPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!measures_) GTEST_SKIP() << "TANDEM_TUNE times nothing";
  }
  void lend(const std::string& key, const std::string& name) {
    tandem::lend(CudaContext(0).device(), {{key, name}});
  }

  bool measures_ = may_measure();  // before TANDEM_TUNE is set here
  TemporaryFolder folder_;
  ScopedVariable cache_{"TANDEM_CACHE_DIR", folder_.path().c_str()};
  ScopedVariable tune_{"TANDEM_TUNE", "borrow"};
  ConvolutionProblem problem_ = [] {
    const Conv2dOptions options{.out_channels = 64, .window = {.kernel = 3, .padding = 1}};
    const Shape input{16, 14, 14, 64};
    return convolution_problem(ConvolutionOperation::forward, Precision::bf16, options, input,
                               conv2d_output_shape(options, input));
  }();
};

// Tandem's own kernel, which is never the fastest here.
TEST_F(CudaBorrowedPlanTest, IsTakenAndNotKept) {
  const std::string slow = [&] {
    CudaContext any(0);
    return direct_convolution_plan(any, problem_)->name();
  }();
  lend(problem_.key(), slow);
  CudaContext context(0);
  EXPECT_EQ(choose_plan(context, problem_)->name(), slow);
  EXPECT_EQ(context.libraries().choices.find(problem_.key()), slow) << "for those that adopt it";
  EXPECT_EQ(context.libraries().choices.made(), 0U);
  EXPECT_EQ(context.libraries().choices.borrowed(), 1U);
  context.libraries().choices.flush();
  EXPECT_EQ(kept(context.device()), "");
}

TEST_F(CudaBorrowedPlanTest, OfNoPlanThatIsKnownHereIsChosenByTiming) {
  lend(problem_.key(), "a plan of another library");
  CudaContext context(0);
  (void)choose_plan(context, problem_);
  EXPECT_EQ(context.libraries().choices.made(), 1U);
  context.libraries().choices.flush();
  EXPECT_EQ(kept(context.device()), "") << "it may stand beside borrowed ones";
}

TEST_F(CudaBorrowedPlanTest, OnlyWhereThatIsAskedFor) {
  lend(problem_.key(), "anything");
  EXPECT_TRUE(CudaContext(0).libraries().choices.lent(problem_.key()));
  const ScopedVariable timed("TANDEM_TUNE", nullptr);
  EXPECT_FALSE(CudaContext(0).libraries().choices.lent(problem_.key()));
}

TEST_F(CudaBorrowedPlanTest, OfWaysThatAreNoPlansOnesThatAreRightAlone) {
  lend("a way", "lent");
  bool is_right = true;
  int timed = 0;
  const MakeCandidates make = [&] {
    const auto way = [&](const char* name, bool right) {
      return PlanCandidate{
          .name = name,
          .time = [&timed](float) { return std::optional(static_cast<float>(++timed)); },
          .fault = [right] { return std::string(right ? "" : "wrong"); }};
    };
    return std::vector{way("fast", true), way("lent", is_right)};
  };
  {
    CudaContext context(0);
    EXPECT_EQ(choose_way(context, "a way", make, "fast"), "lent");
    EXPECT_EQ(timed, 0);
  }
  is_right = false;
  CudaContext context(0);
  EXPECT_EQ(choose_way(context, "a way", make, "lent"), "fast");
  EXPECT_EQ(timed, 2);
}

}  // namespace
}  // namespace tandem
