#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "graph/fusion.h"
#include "graph/small_models.h"

namespace tandem {
namespace {

constexpr std::int64_t batch_size = 6;

/// The derivative of the mean loss along a random direction of one parameter, by Richardson's
/// extrapolation of central differences: the error is of the step's fourth power, so that the step
/// can be far above float's rounding.
class DirectionalCheck {
 public:
  DirectionalCheck(const Graph& graph, AnyContext& context)
      : batch_(graph, batch_size, 3), store_(graph, context, true) {
    scatter_parameters(context, store_, 21);
    plan_ = std::make_unique<StepPlan>(
        graph, store_, context,
        StepPlanOptions{.batch = batch_size, .training = true, .label_smoothing = 0.1F});
    loss();
    plan_->backward(false, {});
  }

  void check(std::size_t parameter) {
    const std::vector<float> kept = copy_of(store_.value(parameter));
    const std::vector<float> gradient = copy_of(store_.gradient(parameter));
    RandomStream random(5, store_.parameters()[parameter].name);
    std::vector<float> direction;
    double analytic = 0.0;
    double norm = 0.0;
    for (const float g : gradient) {
      // Mostly along the gradient, so that the derivative is not lost in rounding.
      direction.push_back((g < 0.0F ? -1.0F : 1.0F) * random.uniform(0.2F, 1.0F));
      analytic += static_cast<double>(g) * static_cast<double>(direction.back());
      norm += std::fabs(static_cast<double>(g));
    }
    const double step = 0.02 / std::sqrt(static_cast<double>(gradient.size()));
    const double near = difference(parameter, kept, direction, step);
    const double far = difference(parameter, kept, direction, 2.0 * step);
    const double numeric = (4.0 * near - far) / 3.0;
    EXPECT_NEAR(analytic, numeric, 3e-3 * norm + 2e-4) << store_.parameters()[parameter].name;
  }

  std::size_t parameters() const { return store_.parameters().size(); }

 private:
  double loss() {
    return plan_->forward(batch_.images(), batch_.targets(), batch_size).loss /
           static_cast<double>(batch_size);
  }
  double loss_at(std::size_t parameter, const std::vector<float>& from,
                 const std::vector<float>& direction, double step) {
    const auto values = store_.value(parameter).span<float>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      values[i] = from[i] + static_cast<float>(step) * direction[i];
    }
    const double result = loss();
    std::copy(from.begin(), from.end(), values.begin());
    return result;
  }
  double difference(std::size_t parameter, const std::vector<float>& from,
                    const std::vector<float>& direction, double step) {
    return (loss_at(parameter, from, direction, step) -
            loss_at(parameter, from, direction, -step)) /
           (2.0 * step);
  }

  Batch batch_;
  ParameterStore store_;
  std::unique_ptr<StepPlan> plan_;
};

TEST(StepGradient, OfEveryParameterIsTheDerivativeOfTheMeanLoss) {
  const Graph plain = smooth_model();
  for (const Graph& graph : {plain, fuse(plain)}) {
    for (const int threads : {1, 2}) {
      AnyContext context = cpu(threads);
      DirectionalCheck check(graph, context);
      ASSERT_EQ(check.parameters(), 14U);
      for (std::size_t i = 0; i < check.parameters(); ++i) check.check(i);
    }
  }
}

}  // namespace
}  // namespace tandem
