#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "optim/gradient_norm.h"
#include "optim/small_arena.h"

namespace tandem {
namespace {

/// Algorithm 2 of Loshchilov and Hutter 2019 in double precision, its schedule multiplier the
/// learning rate, which also multiplies the decay (as torch.optim.AdamW has it).
struct Reference {
  AdamWOptions options;
  std::vector<double> theta;
  std::vector<double> m = std::vector<double>(arena_elements, 0.0);
  std::vector<double> v = std::vector<double>(arena_elements, 0.0);
  int t = 0;

  void step(const std::vector<float>& gradients, double rate, double scale) {
    ++t;
    for (const ParameterGroupSlice& slice : slices) {
      for (std::int64_t k = slice.offset; k < slice.offset + slice.elements; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const double g = scale * static_cast<double>(gradients[i]);
        m[i] = options.beta1 * m[i] + (1.0 - options.beta1) * g;
        v[i] = options.beta2 * v[i] + (1.0 - options.beta2) * g * g;
        const double m_hat = m[i] / (1.0 - std::pow(options.beta1, t));
        const double v_hat = v[i] / (1.0 - std::pow(options.beta2, t));
        theta[i] -= rate * (m_hat / (std::sqrt(v_hat) + options.epsilon) +
                            static_cast<double>(slice.weight_decay) * theta[i]);
      }
    }
  }
};

TEST(AdamW, FollowsTheReferenceOverManySteps) {
  for (const AdamWOptions& options :
       {AdamWOptions{}, AdamWOptions{.beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3},
        AdamWOptions{.beta1 = 0.0, .beta2 = 0.0}}) {
    AnyContext context = CpuContext(2);
    AdamW adamw(context, arena_elements, slices, options);
    std::vector<float> parameters = random_values("parameters");
    Reference reference{options, {parameters.begin(), parameters.end()}};
    for (int step = 0; step < 20; ++step) {
      std::vector<float> gradients = random_values("gradients " + std::to_string(step));
      const float rate = 0.1F / static_cast<float>(step + 1);
      const std::vector<float> before = gradients;
      adamw.step(view(parameters), view(gradients),
                 {.learning_rate = rate, .gradient_scale = 0.25F});
      reference.step(gradients, static_cast<double>(rate), 0.25);
      ASSERT_EQ(gradients, before) << "gradients are only read";
    }
    EXPECT_EQ(adamw.steps_taken(), 20);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_NEAR(parameters[i], reference.theta[i], 5e-6 * (1.0 + std::abs(parameters[i]))) << i;
    }
  }
}

constexpr std::array<std::array<float, 4>, 3> torch_gradients{
    {{0.1F, -0.2F, 3.0F, 1e-4F}, {-0.3F, 0.0F, 1.0F, 1e-4F}, {0.2F, 0.7F, -5.0F, 0.0F}}};

// PyTorch 2.15.0:
//   p = torch.nn.Parameter(torch.tensor([0.5, -1.25, 2.0, 0.0]))
//   o = torch.optim.AdamW([p], lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)
//   for g in torch_gradients:
//       p.grad = torch.tensor(g); o.step(); print(p.tolist())
TEST(AdamW, AgreesWithTorch) {
  const std::array<std::array<double, 4>, 3> expected{
      {{0.489500105, -1.23874998, 1.98800004, -0.00990098994},
       {0.494421303, -1.23114371, 1.97747672, -0.0197920799},
       {0.493473947, -1.23537123, 1.97820294, -0.0270058196}}};
  AnyContext context = CpuContext(1);
  const std::vector<ParameterGroupSlice> all{{0, 4, 0.1F}};
  AdamW adamw(context, 4, all, {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6});
  std::vector<float> p{0.5F, -1.25F, 2.0F, 0.0F};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    std::vector<float> g(torch_gradients[step].begin(), torch_gradients[step].end());
    adamw.step(view(p), view(g), {.learning_rate = 0.01F});
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], expected[step][i], 3e-7) << i;
  }
}

// PyTorch 2.15.0, p as above:
//   o = torch.optim.AdamW([p], lr=0.01)
//   for g in torch_gradients:
//       p.grad = torch.tensor(g)
//       print(torch.nn.utils.clip_grad_norm_([p], 1.0)); o.step(); print(p.tolist())
TEST(AdamW, AgreesWithTorchOnClippedGradients) {
  const std::array<double, 3> norms{3.008321762084961, 1.0440306663513184, 5.052721977233887};
  const std::array<std::array<double, 4>, 3> expected{
      {{0.489950001, -1.23987496, 1.98979998, -0.0099969916},
       {0.496523499, -1.23305035, 1.97961354, -0.0192210302},
       {0.500679255, -1.23644829, 1.97685862, -0.0263498649}}};
  AnyContext context = CpuContext(1);
  const std::vector<ParameterGroupSlice> all{{0, 4, 0.01F}};
  AdamW adamw(context, 4, all, {});
  GradientNorm norm(context, all);
  std::vector<float> p{0.5F, -1.25F, 2.0F, 0.0F};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    std::vector<float> g(torch_gradients[step].begin(), torch_gradients[step].end());
    const double found = norm.measure(view(g));
    EXPECT_NEAR(found, norms[step], 1e-6);
    adamw.step(
        view(p), view(g),
        {.learning_rate = 0.01F, .gradient_scale = static_cast<float>(clip_factor(found, 1.0))});
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], expected[step][i], 3e-7) << i;
  }
}

TEST(AdamW, ContinuesFromRestoredState) {
  AnyContext context = CpuContext(1);
  std::vector<float> whole;
  std::vector<float> parts;
  expect_continues_from_restored_state(
      [&] { return std::make_unique<AdamW>(context, arena_elements, slices, AdamWOptions{}); },
      whole, parts);
  EXPECT_EQ(whole, parts);
  const auto state = AdamW(context, 8, {}, {}).state();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].name, "exp_avg");
  EXPECT_EQ(state[1].name, "exp_avg_sq");
}

TEST(AdamW, DoesNotDependOnTheNumberOfThreads) {
  const auto make = [](AnyContext& context) {
    return std::make_unique<AdamW>(context, arena_elements, slices, AdamWOptions{});
  };
  const std::vector<float> one = after_three_steps(make, 1);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(after_three_steps(make, threads), one);
  const std::vector<float> start = random_values("parameters");
  EXPECT_EQ(one[35001], start[35001]) << "what no slice covers";
  EXPECT_NE(one[35008], start[35008]);
}

TEST(AdamW, RejectsNonsense) {
  AnyContext context = CpuContext(1);
  EXPECT_THROW(AdamW(context, 16, {}, {.beta1 = 1.0}), Error);
  EXPECT_THROW(AdamW(context, 16, {}, {.beta2 = -0.1}), Error);
  EXPECT_THROW(AdamW(context, 16, {}, {.epsilon = 0.0}), Error);
}

}  // namespace
}  // namespace tandem
