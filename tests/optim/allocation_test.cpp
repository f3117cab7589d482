#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "optim/average_kernels.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer_config.h"
#include "optim/small_arena.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};

void* counted(std::size_t bytes) {
  if (counting) ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

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
      allocations = 0;
      counting = true;
      step();
      counting = false;
      EXPECT_EQ(allocations, 0) << optimizer->kind();
    }
    allocations = 0;
    counting = true;
    average_into(std::get<CpuContext>(context), arena_elements, 0.1F, gradients.data(),
                 parameters.data());
    counting = false;
    EXPECT_EQ(allocations, 0) << "the weights' average";
  }
}

}  // namespace
}  // namespace tandem
