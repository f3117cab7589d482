#include "optim/lars.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "optim/small_arena.h"

namespace tandem {
namespace {

/// Algorithm 1 of You, Gitman and Ginsburg 2017, in double precision.
struct Reference {
  LarsOptions options;
  std::vector<double> w;
  std::vector<double> v = std::vector<double>(arena_elements, 0.0);

  double norm_of(const std::vector<double>& values, const ParameterGroupSlice& slice) const {
    double sum = 0.0;
    for (std::int64_t k = slice.offset; k < slice.offset + slice.elements; ++k) {
      sum += values[static_cast<std::size_t>(k)] * values[static_cast<std::size_t>(k)];
    }
    return std::sqrt(sum);
  }

  void step(const std::vector<float>& gradients, double gamma, double scale) {
    std::vector<double> g(gradients.begin(), gradients.end());
    for (double& each : g) each *= scale;
    for (const ParameterGroupSlice& slice : slices) {
      const auto beta = static_cast<double>(slice.weight_decay);
      const double w_norm = norm_of(w, slice);
      const double g_norm = norm_of(g, slice);
      double lambda = 1.0;
      if (slice.adapt && w_norm > 0.0 && g_norm > 0.0) {
        lambda = static_cast<double>(options.trust_coefficient) * w_norm / (g_norm + beta * w_norm);
      }
      for (std::int64_t k = slice.offset; k < slice.offset + slice.elements; ++k) {
        const auto i = static_cast<std::size_t>(k);
        v[i] = static_cast<double>(options.momentum) * v[i] + gamma * lambda * (g[i] + beta * w[i]);
        w[i] -= v[i];
      }
    }
  }
};

TEST(Lars, FollowsTheReferenceOverManySteps) {
  for (const LarsOptions& options :
       {LarsOptions{}, LarsOptions{.momentum = 0.0F, .trust_coefficient = 0.02F}}) {
    AnyContext context = CpuContext(2);
    Lars lars(context, arena_elements, slices, options);
    std::vector<float> parameters = random_values("parameters");
    Reference reference{options, {parameters.begin(), parameters.end()}};
    for (int step = 0; step < 20; ++step) {
      std::vector<float> gradients = random_values("gradients " + std::to_string(step));
      const float rate = 4.0F / static_cast<float>(step + 1);
      lars.step(view(parameters), view(gradients),
                {.learning_rate = rate, .gradient_scale = 0.25F});
      reference.step(gradients, static_cast<double>(rate), 0.25);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_NEAR(parameters[i], reference.w[i], 2e-6 * (1.0 + std::abs(reference.w[i]))) << i;
    }
  }
}

TEST(Lars, StepsFromZeroAtThePlainRate) {
  AnyContext context = CpuContext(1);
  const std::vector<ParameterGroupSlice> two{{0, 2, 0.0F}, {16, 1, 0.0F}};
  Lars lars(context, 17, two, {});
  std::vector<float> parameters(17, 0.0F);
  std::vector<float> gradients(17, 0.0F);
  parameters[16] = 1.0F;  // its gradient is zero
  gradients[0] = 2.0F;
  lars.step(view(parameters), view(gradients), {.learning_rate = 0.5F});
  EXPECT_EQ(parameters[0], -1.0F);
  EXPECT_EQ(parameters[1], 0.0F);
  EXPECT_EQ(parameters[16], 1.0F);
}

/// The first step of an adapted tensor has a length that its gradient's does not change.
TEST(Lars, AStepDoesNotDependOnTheGradientsScale) {
  AnyContext context = CpuContext(1);
  const std::vector<ParameterGroupSlice> all{{0, arena_elements, 0.0F}};
  std::vector<float> first;
  for (const float scale : {1.0F, 1024.0F}) {
    Lars lars(context, arena_elements, all, {.trust_coefficient = 0.01F});
    std::vector<float> parameters = random_values("parameters");
    std::vector<float> gradients = random_values("gradients");
    lars.step(view(parameters), view(gradients), {.learning_rate = 1.0F, .gradient_scale = scale});
    if (first.empty()) first = parameters;
    EXPECT_EQ(parameters, first) << scale;
  }
}

TEST(Lars, ContinuesFromRestoredState) {
  AnyContext context = CpuContext(1);
  std::vector<float> whole;
  std::vector<float> parts;
  expect_continues_from_restored_state(
      [&] { return std::make_unique<Lars>(context, arena_elements, slices, LarsOptions{}); }, whole,
      parts);
  EXPECT_EQ(whole, parts);
}

TEST(Lars, DoesNotDependOnTheNumberOfThreads) {
  const auto make = [](AnyContext& context) {
    return std::make_unique<Lars>(context, arena_elements, slices, LarsOptions{});
  };
  const std::vector<float> one = after_three_steps(make, 1);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(after_three_steps(make, threads), one);
}

TEST(Lars, RejectsNonsense) {
  AnyContext context = CpuContext(1);
  EXPECT_THROW(Lars(context, 16, {}, {.momentum = 1.0F}), Error);
  EXPECT_THROW(Lars(context, 16, {}, {.trust_coefficient = 0.0F}), Error);
}

}  // namespace
}  // namespace tandem
