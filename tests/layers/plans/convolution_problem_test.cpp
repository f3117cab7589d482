#include "layers/plans/convolution_problem.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "layers/convolution/conv2d.h"

// The keys under which choices of kernels are kept.

namespace tandem {
namespace {

/// No two of its numbers are equal, so that none can stand for another.
const Conv2dOptions options{.out_channels = 24,
                            .window = {.kernel = 3, .stride = 2, .padding = 4, .dilation = 5},
                            .groups = 6};
const Shape images{8, 30, 40, 12};

ConvolutionProblem problem_of(const Conv2dOptions& of, const Shape& input,
                              ConvolutionOperation operation = ConvolutionOperation::forward,
                              Precision precision = Precision::fp32) {
  return convolution_problem(operation, precision, of, input, conv2d_output_shape(of, input));
}

/// The problem, and others that differ from it in one thing each, or in two that changed places.
std::vector<ConvolutionProblem> unlike_problems() {
  std::vector<ConvolutionProblem> problems;
  for (const auto operation : {ConvolutionOperation::forward, ConvolutionOperation::data_gradient,
                               ConvolutionOperation::weight_gradient}) {
    for (const Precision precision :
         {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
      problems.push_back(problem_of(options, images, operation, precision));
    }
  }
  problems.push_back(problem_of(options, images, ConvolutionOperation::data_gradient));
  problems.back().adds = true;
  for (const Shape& other :
       {Shape{9, 30, 40, 12}, Shape{8, 31, 40, 12}, Shape{8, 30, 41, 12}, Shape{8, 30, 40, 18},
        Shape{8, 40, 30, 12}, Shape{30, 8, 40, 12}, Shape{8, 30, 12, 40 * 3}}) {
    problems.push_back(problem_of(options, other));
  }
  const auto changed = [&](auto change) {
    Conv2dOptions other = options;
    change(other);
    problems.push_back(problem_of(other, images));
  };
  changed([](Conv2dOptions& o) { o.out_channels = 30; });
  changed([](Conv2dOptions& o) { o.window.kernel = 2; });
  changed([](Conv2dOptions& o) { o.window.stride = 1; });
  changed([](Conv2dOptions& o) { o.window.padding = 3; });
  changed([](Conv2dOptions& o) { o.window.dilation = 4; });
  changed([](Conv2dOptions& o) { o.groups = 3; });
  changed([](Conv2dOptions& o) { std::swap(o.window.kernel, o.window.stride); });
  changed([](Conv2dOptions& o) { std::swap(o.window.padding, o.window.dilation); });
  changed([](Conv2dOptions& o) { std::swap(o.window.padding, o.groups); });
  return problems;
}

TEST(ConvolutionProblemKey, DiffersWithAnythingOfTheProblem) {
  std::map<std::string, int> seen;
  int number = 0;
  for (const ConvolutionProblem& problem : unlike_problems()) {
    const auto [at, fresh] = seen.emplace(problem.key(), number);
    EXPECT_TRUE(fresh) << "problems " << at->second << " and " << number << ": " << at->first;
    ++number;
  }
}

TEST(ConvolutionProblemKey, IsTheSameForEqualProblems) {
  const std::vector<ConvolutionProblem> problems = unlike_problems();
  const std::vector<ConvolutionProblem> again = unlike_problems();
  for (std::size_t i = 0; i < problems.size(); ++i) EXPECT_EQ(problems[i].key(), again[i].key());
  // Written down: files of earlier runs are read by it.
  EXPECT_EQ(problems.front().key(), "conv forward fp32 n8 h30 w40 c12 k24 r3 s2 p4 d5 g6");
  // A bias and how the weight starts make no other convolution.
  Conv2dOptions biased = options;
  biased.bias = true;
  biased.init = ConvInit::fan_in;
  EXPECT_EQ(problem_of(biased, images).key(), problems.front().key());
}

TEST(ConvolutionProblemKey, IsOneFieldOfOneLine) {
  for (const ConvolutionProblem& problem : unlike_problems()) {
    EXPECT_EQ(problem.key().find_first_of("\t\n"), std::string::npos) << problem.key();
  }
}

}  // namespace
}  // namespace tandem
