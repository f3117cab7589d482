#include "optim/sgd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "optim/small_arena.h"

namespace tandem {
namespace {

/// torch.optim.SGD in double precision, written from its documentation, first-step rule included.
struct Reference {
  SgdOptions options;
  std::vector<double> parameters;
  std::vector<double> buffer;
  bool first = true;

  void step(const std::vector<float>& gradients, double rate, double scale) {
    for (const ParameterGroupSlice& slice : slices) {
      for (std::int64_t k = slice.offset; k < slice.offset + slice.elements; ++k) {
        const auto i = static_cast<std::size_t>(k);
        double g = scale * static_cast<double>(gradients[i]);
        if (slice.weight_decay != 0.0F)
          g += static_cast<double>(slice.weight_decay) * parameters[i];
        if (options.momentum != 0.0F) {
          const auto momentum = static_cast<double>(options.momentum);
          buffer[i] = first ? g : momentum * buffer[i] + g;
          g = options.nesterov ? g + momentum * buffer[i] : buffer[i];
        }
        parameters[i] -= rate * g;
      }
    }
    first = false;
  }
};

class SgdRule : public testing::TestWithParam<SgdOptions> {};

TEST_P(SgdRule, FollowsTheReferenceOverManySteps) {
  AnyContext context = CpuContext(2);
  Sgd sgd(context, arena_elements, slices, GetParam());
  std::vector<float> parameters = random_values("parameters");
  Reference reference{
      GetParam(), {parameters.begin(), parameters.end()}, std::vector<double>(arena_elements)};
  for (int step = 0; step < 20; ++step) {
    std::vector<float> gradients = random_values("gradients " + std::to_string(step));
    const float rate = 0.1F / static_cast<float>(step + 1);
    const std::vector<float> before = gradients;
    sgd.step(view(parameters), view(gradients), {.learning_rate = rate, .gradient_scale = 0.25F});
    reference.step(gradients, static_cast<double>(rate), 0.25);
    ASSERT_EQ(gradients, before) << "gradients are only read";
  }
  EXPECT_EQ(sgd.steps_taken(), 20);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_NEAR(parameters[i], reference.parameters[i], 2e-6 * (1.0 + std::abs(parameters[i])))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, SgdRule,
                         testing::Values(SgdOptions{}, SgdOptions{.momentum = 0.9F},
                                         SgdOptions{.momentum = 0.9F, .nesterov = true}),
                         [](const auto& suite) {
                           if (suite.param.nesterov) return "Nesterov";
                           return suite.param.momentum > 0.0F ? "Momentum" : "Plain";
                         });

TEST(Sgd, LeavesWhatNoSliceCovers) {
  AnyContext context = CpuContext(1);
  Sgd sgd(context, arena_elements, slices, {.momentum = 0.9F});
  std::vector<float> parameters(arena_elements, 1.0F);
  std::vector<float> gradients(arena_elements, 1.0F);
  sgd.step(view(parameters), view(gradients), {.learning_rate = 0.5F});
  const std::span<float> momentum = sgd.state().at(0).tensor.span<float>();
  std::size_t covered = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool changed = parameters[i] != 1.0F;
    EXPECT_EQ(changed, momentum[i] != 0.0F) << i;
    covered += changed ? 1 : 0;
  }
  EXPECT_EQ(covered, 35001U + 17U + 1U);
  EXPECT_EQ(parameters[35001], 1.0F);
  EXPECT_NE(parameters[35008], 1.0F);
}

TEST(Sgd, DoesNotDependOnTheNumberOfThreads) {
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 5}) {
    AnyContext context = CpuContext(threads);
    Sgd sgd(context, arena_elements, slices, {.momentum = 0.9F, .nesterov = true});
    std::vector<float> parameters = random_values("parameters");
    std::vector<float> gradients = random_values("gradients");
    for (int step = 0; step < 3; ++step) {
      sgd.step(view(parameters), view(gradients), {.learning_rate = 0.1F, .gradient_scale = 0.5F});
    }
    if (first.empty()) first = parameters;
    EXPECT_EQ(std::memcmp(first.data(), parameters.data(), parameters.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

TEST(Sgd, ContinuesFromRestoredState) {
  AnyContext context = CpuContext(1);
  const SgdOptions options{.momentum = 0.9F, .nesterov = true};
  std::vector<float> gradients = random_values("gradients");
  std::vector<float> whole = random_values("parameters");
  Sgd uninterrupted(context, arena_elements, slices, options);
  for (int step = 0; step < 4; ++step) {
    uninterrupted.step(view(whole), view(gradients), {.learning_rate = 0.1F});
  }

  std::vector<float> parts = random_values("parameters");
  Sgd before(context, arena_elements, slices, options);
  for (int step = 0; step < 2; ++step) {
    before.step(view(parts), view(gradients), {.learning_rate = 0.1F});
  }
  Sgd after(context, arena_elements, slices, options);
  ASSERT_EQ(after.state().at(0).name, "momentum");
  const Tensor from = before.state().at(0).tensor;
  std::memcpy(after.state().at(0).tensor.raw(), from.raw(), from.bytes());
  after.set_steps_taken(before.steps_taken());
  for (int step = 0; step < 2; ++step) {
    after.step(view(parts), view(gradients), {.learning_rate = 0.1F});
  }
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(after.steps_taken(), 4);
}

TEST(Sgd, RejectsWhatDoesNotFit) {
  AnyContext context = CpuContext(1);
  const std::vector<ParameterGroupSlice> overlapping{{0, 8, 0.0F}, {7, 8, 0.0F}};
  const std::vector<ParameterGroupSlice> too_long{{0, 17, 0.0F}};
  EXPECT_THROW(Sgd(context, 16, overlapping, {}), Error);
  EXPECT_THROW(Sgd(context, 16, too_long, {}), Error);
  EXPECT_THROW(Sgd(context, 16, {}, {.momentum = 0.0F, .nesterov = true}), Error);

  Sgd sgd(context, 16, {}, {});
  EXPECT_TRUE(sgd.state().empty());
  std::vector<float> right(16);
  std::vector<float> wrong(15);
  std::vector<std::int32_t> integers(16);
  EXPECT_THROW(sgd.step(view(wrong), view(right), {}), Error);
  EXPECT_THROW(sgd.step(view(right), view(wrong), {}), Error);
  EXPECT_THROW(sgd.step(view(right), Tensor(integers.data(), {16}, DType::i32), {}), Error);
  EXPECT_EQ(sgd.steps_taken(), 0);
  EXPECT_NO_THROW(sgd.step(view(right), view(right), {}));
}

}  // namespace
}  // namespace tandem
