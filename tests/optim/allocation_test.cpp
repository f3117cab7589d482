#include <gtest/gtest.h>

#include <memory>

#include "optim/average_kernels.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer_config.h"
#include "optim/small_arena.h"
#include "support/allocations.h"

namespace tandem {
namespace {

TEST(OptimizerAllocation, AnUpdateOfAnyRuleAllocatesNothing) {
  for (const int threads : {1, 2}) {
    AnyContext context = CpuContext(threads);
    std::vector<float> parameters = random_values("parameters");
    std::vector<float> gradients = random_values("gradients");
    const Tensor w = view(parameters);
    const Tensor g = view(gradients);
    GradientNorm norm(context, slices);
    OptimizerConfig config;
    for (const auto& rule :
         {decltype(config.rule)(SgdOptions{.momentum = 0.9F}),
          decltype(config.rule)(AdamWOptions{}), decltype(config.rule)(LarsOptions{})}) {
      config.rule = rule;
      const auto optimizer = make_optimizer(config, context, arena_elements, slices);
      const auto step = [&] {
        const auto scale = static_cast<float>(clip_factor(norm.measure(g), 1.0));
        optimizer->step(w, g, {.learning_rate = 0.1F, .gradient_scale = scale});
      };
      step();
      EXPECT_EQ(allocations_of(step), 0) << optimizer->kind();
    }
    const auto average = [&] {
      average_into(std::get<CpuContext>(context), arena_elements, 0.1F, gradients.data(),
                   parameters.data());
    };
    EXPECT_EQ(allocations_of(average), 0) << "the weights' average";
  }
}

}  // namespace
}  // namespace tandem
