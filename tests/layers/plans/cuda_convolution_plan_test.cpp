#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "device/any_context.h"
#include "device/arena.h"
#include "device/memory.h"
#include "layers/convolution/conv2d.h"
#include "layers/plans/convolution_direct.h"
#include "layers/plans/convolution_plan.h"
#include "layers/plans/stem_plan.h"
#include "tensor/convert.h"

// Every candidate that the tuner may take, whichever is fastest here, against the kernel that is
// the definition.

namespace tandem {
namespace {

struct PlanCase {
  std::string name;
  Shape input;
  std::int64_t filters;
  Window window;
  std::vector<std::string> kinds;  ///< the first words of names of candidates, beside cuDNN's
  std::int64_t groups = 1;
};

void PrintTo(const PlanCase& row, std::ostream* out) { *out << row.name; }

using Case = std::tuple<PlanCase, Precision>;

constexpr std::size_t guard = 256;
constexpr unsigned char guard_byte = 0xa5;

/// Device memory of NaNs before a guard.
class Buffer {
 public:
  Buffer(AnyContext& context, std::size_t bytes)
      : context_(&context), bytes_(bytes), arena_(context, bytes + guard, "a test") {
    std::vector<unsigned char> content(bytes, 0xff);
    content.resize(bytes + guard, guard_byte);
    copy_to_device(context, content.data(), content.size(), arena_.data());
  }
  std::byte* data() const { return arena_.data(); }
  bool intact() const {
    std::vector<unsigned char> all(bytes_ + guard);
    copy_to_host(*context_, arena_.data(), all.size(), all.data());
    return std::all_of(all.begin() + static_cast<std::ptrdiff_t>(bytes_), all.end(),
                       [](unsigned char byte) { return byte == guard_byte; });
  }

 private:
  AnyContext* context_;
  std::size_t bytes_;
  Arena arena_;
};

class CudaConvolutionPlanTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    context_ = std::make_unique<AnyContext>(std::in_place_type<CudaContext>, 0);
  }
  static void TearDownTestSuite() { context_.reset(); }
  static std::unique_ptr<AnyContext> context_;

  static CudaContext& cuda() { return std::get<CudaContext>(*context_); }
  const PlanCase& row() const { return std::get<0>(GetParam()); }
  Precision precision() const { return std::get<1>(GetParam()); }

  ConvolutionProblem problem(ConvolutionOperation operation) const {
    const Conv2dOptions options{
        .out_channels = row().filters, .window = row().window, .groups = row().groups};
    return convolution_problem(operation, precision(), options, row().input,
                               conv2d_output_shape(options, row().input));
  }

  /// Normal numbers in a buffer of the problem's dtype.
  static Buffer operand(const ConvolutionProblem& problem, std::size_t bytes,
                        std::string_view name) {
    RandomStream random(11, name);
    std::vector<float> values(bytes / size_of(problem.dtype()));
    for (float& value : values) value = random.normal();
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const Arena staging(*context_, values.size() * sizeof(float), "a test");
    copy_to_device(*context_, values.data(), values.size() * sizeof(float), staging.data());
    Buffer buffer(*context_, bytes);
    convert(*context_, Tensor(staging.data(), shape),
            Tensor(buffer.data(), shape, problem.dtype()));
    synchronize(*context_);
    return buffer;
  }

  struct Operands {
    Buffer first, second;
  };
  static Operands operands(const ConvolutionProblem& problem) {
    return {operand(problem, problem.first_bytes(), "first"),
            operand(problem, problem.second_bytes(), "second")};
  }

  /// What the plan computes; nothing where the library refuses after all, as the tuner may find.
  static std::vector<float> run(const ConvolutionPlan& plan, const ConvolutionProblem& problem,
                                const Operands& operands) {
    const Buffer result(*context_, problem.result_bytes());
    const Buffer scratch(*context_, plan.scratch());
    try {
      plan.run(operands.first.data(), operands.second.data(), result.data(), scratch.data());
      synchronize(*context_);
    } catch (const SystemError&) {
      return {};
    }
    EXPECT_TRUE(result.intact() && scratch.intact()) << plan.name();
    EXPECT_TRUE(operands.first.intact() && operands.second.intact()) << plan.name();
    const bool weights = problem.operation == ConvolutionOperation::weight_gradient;
    const DType dtype = weights ? DType::f32 : problem.dtype();
    std::vector<float> values(problem.result_bytes() / size_of(dtype));
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const Arena staging(*context_, values.size() * sizeof(float), "a test");
    convert(*context_, Tensor(result.data(), shape, dtype), Tensor(staging.data(), shape));
    copy_to_host(*context_, staging.data(), values.size() * sizeof(float), values.data());
    return values;
  }

  double tolerance() const {
    switch (precision()) {
      case Precision::fp32:
        return 2e-5;
      case Precision::tf32:
        return 2e-3;
      case Precision::bf16:
        return 1.5e-2;
      case Precision::fp16:
        return 3e-3;
    }
    return 0.0;
  }
};

std::unique_ptr<AnyContext> CudaConvolutionPlanTest::context_;

double error_of(const std::vector<float>& got, const std::vector<float>& wanted) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
    difference += d * d;
    norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return std::sqrt(difference / norm);
}

TEST_P(CudaConvolutionPlanTest, EveryCandidateIsTheDefinition) {
  constexpr std::size_t most_each = 2;
  for (const auto operation : {ConvolutionOperation::forward, ConvolutionOperation::data_gradient,
                               ConvolutionOperation::weight_gradient}) {
    const ConvolutionProblem problem = this->problem(operation);
    SCOPED_TRACE(problem.key());
    const Operands operands = this->operands(problem);
    const auto wanted = run(*direct_convolution_plan(cuda(), problem), problem, operands);
    std::vector<std::string> names;
    for (const ConvolutionPlanPtr& plan : candidate_plans(cuda(), problem, most_each)) {
      const auto got = run(*plan, problem, operands);
      if (got.empty()) continue;
      ASSERT_EQ(got.size(), wanted.size());
      // A comparison that a NaN fails.
      EXPECT_TRUE(error_of(got, wanted) <= tolerance())
          << plan->name() << ": error " << error_of(got, wanted);
      EXPECT_TRUE(run(*plan, problem, operands) == got) << plan->name();
      names.push_back(plan->name());
    }
    for (const std::string& kind : row().kinds) {
      // Nobody wants the gradient of the network's input: those plans are for the others alone.
      const bool of_image = kind == "im2col" || kind == "space-to-depth" || kind == "stem";
      if (of_image && operation == ConvolutionOperation::data_gradient) continue;
      if (kind == "stem" && size_of(problem.dtype()) != 2) continue;
      const auto name = std::ranges::find_if(names, [&](const std::string& known) {
        return known == kind || known.starts_with(kind + " ");
      });
      ASSERT_TRUE(name != names.end()) << "no candidate of kind " << kind;
      const auto restored = restore_plan(cuda(), problem, *name);
      ASSERT_TRUE(restored != nullptr) << *name;
      EXPECT_EQ(restored->name(), *name);
      EXPECT_TRUE(error_of(run(*restored, problem, operands), wanted) <= tolerance()) << *name;
    }
  }
}

std::vector<PlanCase> plan_cases() {
  const std::vector<std::string> both{"space-to-depth", "im2col"};
  return {
      {"stem", {2, 33, 30, 3}, 64, {.kernel = 7, .stride = 2, .padding = 3}, both},
      {"small_stem", {3, 20, 21, 3}, 24, {.kernel = 3, .stride = 2, .padding = 1}, both},
      {"wide_stem", {2, 33, 232, 3}, 64, {.kernel = 7, .stride = 2, .padding = 3}, {"stem"}},
      {"stem_of_packs", {3, 20, 24, 3}, 24, {.kernel = 3, .stride = 2, .padding = 1}, {"stem"}},
      {"stem_of_five", {2, 19, 40, 3}, 40, {.kernel = 5, .stride = 2, .padding = 2}, {"stem"}},
      {"stem_without_border", {2, 17, 16, 3}, 8, {.kernel = 6, .stride = 2}, {"stem"}},
      {"stem_of_odd_place", {2, 8, 72, 3}, 32, {.kernel = 7, .stride = 2, .padding = 1}, {"stem"}},
      {"stem_of_one_tap", {1, 9, 16, 3}, 56, {.kernel = 1, .stride = 2}, {"stem"}},
      {"stem_of_two", {2, 10, 16, 3}, 16, {.kernel = 2, .stride = 2}, {"stem"}},
      {"stem_of_four", {1, 12, 24, 3}, 64, {.kernel = 4, .stride = 2, .padding = 3}, {"stem"}},
      {"narrow_stem", {2, 31, 24, 3}, 64, {.kernel = 3, .stride = 2, .padding = 1}, {"stem"}},
      {"stem_of_many_tiles",
       {160, 64, 64, 3},
       64,
       {.kernel = 7, .stride = 2, .padding = 3},
       {"stem"}},
      {"flat_stem", {2, 9, 8, 3}, 16, {.kernel = 3, .padding = 1}, {"im2col"}},
      {"grey", {2, 11, 10, 1}, 8, {.kernel = 5, .stride = 3, .padding = 2}, both},
      {"patches", {2, 12, 8, 3}, 16, {.kernel = 4, .stride = 4}, {"im2col"}},
      {"pixel", {37, 1, 1, 64}, 48, {.kernel = 3, .padding = 1}, {"cublaslt"}},
      {"pixel_strided", {5, 1, 1, 16}, 8, {.kernel = 5, .stride = 2, .padding = 2}, {"cublaslt"}},
      {"corner", {9, 2, 2, 32}, 64, {.kernel = 3, .stride = 2, .padding = 1}, {"toeplitz"}},
      {"two", {9, 2, 2, 32}, 16, {.kernel = 3, .padding = 1}, {"toeplitz"}},
      {"four", {5, 4, 4, 16}, 24, {.kernel = 3, .stride = 2, .padding = 1}, {"toeplitz"}},
      {"uneven", {7, 3, 2, 8}, 16, {.kernel = 3, .padding = 1}, {"toeplitz"}},
      {"whole", {6, 4, 3, 16}, 40, {.kernel = 3}, {"toeplitz"}},
      {"depthwise", {3, 12, 11, 24}, 24, {.kernel = 3, .padding = 1}, {"depthwise"}, 24},
      {"depthwise_strided",
       {2, 15, 14, 32},
       32,
       {.kernel = 5, .stride = 2, .padding = 2},
       {"depthwise"},
       32},
      {"depthwise_seven", {2, 14, 13, 16}, 16, {.kernel = 7, .padding = 3}, {"depthwise"}, 16},
  };
}

/// Of Tandem's kernels alone: compute-sanitizer's racecheck fails in kernels of the libraries.
class CudaStemPlanTest : public CudaConvolutionPlanTest {};

TEST_P(CudaStemPlanTest, IsTheDefinition) {
  for (const auto operation :
       {ConvolutionOperation::forward, ConvolutionOperation::weight_gradient}) {
    const ConvolutionProblem problem = this->problem(operation);
    SCOPED_TRACE(problem.key());
    const Operands operands = this->operands(problem);
    const auto wanted = run(*direct_convolution_plan(cuda(), problem), problem, operands);
    const std::vector<ConvolutionPlanPtr> plans = stem_plans(cuda(), problem);
    ASSERT_FALSE(plans.empty());
    for (const ConvolutionPlanPtr& plan : plans) {
      const auto got = run(*plan, problem, operands);
      ASSERT_EQ(got.size(), wanted.size()) << plan->name();
      EXPECT_TRUE(error_of(got, wanted) <= tolerance())
          << plan->name() << ": error " << error_of(got, wanted);
    }
  }
}

std::vector<PlanCase> stem_cases() {
  std::vector<PlanCase> cases = plan_cases();
  std::erase_if(cases, [](const PlanCase& each) {
    return std::ranges::find(each.kinds, "stem") == each.kinds.end();
  });
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  return std::get<0>(test.param).name + "_" + std::string(name_of(std::get<1>(test.param)));
}

INSTANTIATE_TEST_SUITE_P(Table, CudaStemPlanTest,
                         testing::Combine(testing::ValuesIn(stem_cases()),
                                          testing::Values(Precision::bf16, Precision::fp16)),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(Table, CudaConvolutionPlanTest,
                         testing::Combine(testing::ValuesIn(plan_cases()),
                                          testing::Values(Precision::fp32, Precision::tf32,
                                                          Precision::bf16, Precision::fp16)),
                         name_of_case);

}  // namespace
}  // namespace tandem
