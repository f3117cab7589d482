#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "device/arena.h"
#include "device/memory.h"
#include "layers/convolution/conv2d.h"
#include "layers/kernel_run.h"
#include "layers/plans/convolution_direct.h"
#include "tensor/convert.h"

// Data gradients that are added to what is there: every candidate, not only the one that happens to
// be the fastest here.

namespace tandem {
namespace {

struct Row {
  const char* name;
  Window window;
  std::int64_t groups, side, channels, out_channels;
};

const Row rows[] = {
    {"point", {.kernel = 1}, 1, 14, 64, 32},
    {"point_odd", {.kernel = 1}, 1, 7, 58, 30},
    {"point_strided", {.kernel = 1, .stride = 2}, 1, 15, 64, 128},
    {"three", {.kernel = 3, .padding = 1}, 1, 14, 64, 64},
    {"three_odd", {.kernel = 3, .padding = 1}, 1, 9, 24, 40},
    {"three_strided", {.kernel = 3, .stride = 2, .padding = 1}, 1, 28, 64, 128},
    {"three_channels", {.kernel = 3, .padding = 1}, 1, 12, 3, 16},
    {"dilated", {.kernel = 3, .padding = 2, .dilation = 2}, 1, 14, 32, 32},
    {"pixel", {.kernel = 3, .padding = 1}, 1, 1, 64, 48},
    {"two_by_two", {.kernel = 3, .padding = 1}, 1, 2, 32, 16},
    {"groups", {.kernel = 3, .padding = 1}, 2, 14, 64, 64},
};

ConvolutionProblem problem_of(const Row& row, Precision precision) {
  const Conv2dOptions options{
      .out_channels = row.out_channels, .window = row.window, .groups = row.groups};
  const Shape input{4, row.side, row.side, row.channels};
  return convolution_problem(ConvolutionOperation::data_gradient, precision, options, input,
                             conv2d_output_shape(options, input));
}

/// Largest error of a result's norm, relative: summation order, and rounding to the dtype.
double tolerance_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 1e-4;
    case Precision::tf32:
      return 2e-3;
    case Precision::bf16:
      return 1e-2;
    case Precision::fp16:
      return 2e-3;
  }
  return 0.0;
}

using Case = std::tuple<Row, Precision>;

class CudaAddingPlansTest : public testing::TestWithParam<Case> {
 protected:
  CudaContext& device() { return std::get<CudaContext>(context_); }

  /// Random numbers of the problem's dtype in device memory.
  Arena random(std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes / size_of(problem_.dtype()));
    std::vector<float> values(static_cast<std::size_t>(count));
    std::normal_distribution<float> draw;
    for (float& value : values) value = draw(engine_);
    return uploaded(values);
  }
  Arena uploaded(const std::vector<float>& values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    Arena staging(context_, values.size() * sizeof(float), "a test");
    Arena data(context_, values.size() * size_of(problem_.dtype()), "a test");
    copy_to_device(context_, values.data(), staging.bytes(), staging.data());
    convert(context_, Tensor(staging.data(), shape), Tensor(data.data(), shape, problem_.dtype()));
    synchronize(context_);
    return data;
  }
  /// The gradient that the plan leaves where `before` was; nothing where the library refuses after
  /// all, as the tuner may find.
  std::vector<float> gradient(const ConvolutionPlan& plan, const std::vector<float>& before) {
    const Arena result = uploaded(before);
    const Arena scratch(context_, std::max<std::size_t>(plan.scratch(), 1), "a test");
    try {
      plan.run(dy_.data(), weight_.data(), result.data(), scratch.data());
    } catch (const SystemError&) {
      return {};
    }
    const Shape shape{static_cast<std::int64_t>(before.size())};
    const Arena staging(context_, before.size() * sizeof(float), "a test");
    convert(context_, Tensor(result.data(), shape, problem_.dtype()),
            Tensor(staging.data(), shape));
    std::vector<float> values(before.size());
    copy_to_host(context_, staging.data(), staging.bytes(), values.data());
    return values;
  }

  AnyContext context_{std::in_place_type<CudaContext>, 0};
  std::mt19937 engine_{7};
  ConvolutionProblem problem_ = problem_of(std::get<0>(GetParam()), std::get<1>(GetParam()));
  Arena dy_ = random(problem_.first_bytes());
  Arena weight_ = random(problem_.second_bytes());
};

TEST_P(CudaAddingPlansTest, EveryCandidateAddsToWhatIsThere) {
  const std::vector<float> before =
      gradient_before(problem_.result_bytes() / size_of(problem_.dtype()));
  std::vector<float> wanted = gradient(*direct_convolution_plan(device(), problem_), before);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += before[i];
  const double norm =
      std::sqrt(std::inner_product(wanted.begin(), wanted.end(), wanted.begin(), 0.0));

  constexpr std::size_t most_each = 5;
  problem_.adds = true;
  auto plans = candidate_plans(device(), problem_, most_each);
  plans.push_back(direct_convolution_plan(device(), problem_));
  for (const auto& plan : plans) {
    const std::vector<float> got = gradient(*plan, before);
    if (got.empty()) continue;
    double squares = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double difference = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
      squares += difference * difference;
    }
    // A comparison that a NaN fails.
    EXPECT_TRUE(std::sqrt(squares) <= tolerance_of(problem_.precision) * norm)
        << plan->name() << ": error " << std::sqrt(squares) / norm;
    const auto restored = restore_plan(device(), problem_, plan->name());
    ASSERT_NE(restored, nullptr) << plan->name();
    EXPECT_EQ(restored->name(), plan->name());
  }
}

INSTANTIATE_TEST_SUITE_P(Table, CudaAddingPlansTest,
                         testing::Combine(testing::ValuesIn(rows),
                                          testing::Values(Precision::fp32, Precision::tf32,
                                                          Precision::bf16, Precision::fp16)),
                         [](const testing::TestParamInfo<Case>& test) {
                           return std::string(std::get<0>(test.param).name) + "_" +
                                  std::string(name_of(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace tandem
