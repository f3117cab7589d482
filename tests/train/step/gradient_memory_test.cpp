#include "train/step/gradient_memory.h"

#include <gtest/gtest.h>

#include "device/open_context.h"
#include "graph/fusion.h"
#include "train/device_run.h"
#include "train/step/raw_input.h"
#include "train/step/shared_state.h"

namespace tandem {
namespace {

// Two batches are on their way while one is current and the one before is kept.
static_assert(step_batch_bytes(10, 1000, 1) == 1000 + 4 * 10);
static_assert(step_batch_bytes(10, 1000, 3) == 1000 + 10 * 10);

GradientMemory of_one_gpu(const std::vector<std::string>& settings) {
  return gradient_memory(run_with(settings), 1, true);
}

TEST(GradientMemory, PassesWhereEachParameterCanBeUpdatedAlone) {
  EXPECT_EQ(of_one_gpu({}), GradientMemory::passing);
  EXPECT_EQ(of_one_gpu({"optimizer.kind=\"adamw\""}), GradientMemory::passing);
  EXPECT_EQ(of_one_gpu({"train.precision=\"bf16\""}), GradientMemory::passing);
  EXPECT_EQ(of_one_gpu({"train.ema_decay=0.5"}), GradientMemory::passing);
  EXPECT_EQ(of_one_gpu({"parallel.folded_ranks=2"}), GradientMemory::passing);
}

TEST(GradientMemory, IsLentWhereAllGradientsCountOrNobodyAsksForLess) {
  EXPECT_EQ(of_one_gpu({"train.update_in_backward=false"}), GradientMemory::lent);
  EXPECT_EQ(of_one_gpu({"train.precision=\"fp16\""}), GradientMemory::lent);
  EXPECT_EQ(of_one_gpu({"optimizer.clip_norm=1.0"}), GradientMemory::lent);
  RunConfig lars = run_with({});
  lars.optimizer.rule = LarsOptions();
  EXPECT_EQ(gradient_memory(lars, 1, true), GradientMemory::lent);
}

TEST(GradientMemory, IsTheGradientsOwnWhereOthersReadIt) {
  EXPECT_EQ(of_one_gpu({"train.accumulate=2"}), GradientMemory::stored);
  EXPECT_EQ(gradient_memory(run_with({}), 2, true), GradientMemory::stored);
  EXPECT_EQ(gradient_memory(run_with({}), 1, false), GradientMemory::stored);
}

TEST(GradientMemory, OptimizersNeedNoneInTheStore) {
  const RunConfig config = run_with({});
  AnyContext context = CpuContext(1);
  const ParameterStore with(fuse(smooth_graph(config, 4)), context, true);
  ParameterStore without(fuse(smooth_graph(config, 4)), context, false);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(config, without, nullptr, {});
  EXPECT_EQ(optimizer->arena_elements(), with.all_gradients().elements());
}

}  // namespace
}  // namespace tandem
