// Times the first convolutions of models at 224 px, forward and their weight's gradient: the
// fastest of the libraries' plans, and Tandem's own for each size of tile. A line of JSON for each.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "device/memory_kernels.h"
#include "layers/convolution/conv2d.h"
#include "layers/plans/convolution_plan.h"
#include "layers/tuning/kernel_timing.h"

namespace {

using namespace tandem;

struct Case {
  std::string_view model;
  std::int64_t batch, out, kernel, padding;
};

constexpr Case cases[] = {{"resnet", 256, 64, 7, 3},
                          {"resnet", 64, 64, 7, 3},
                          {"mobilenet_v2", 256, 32, 3, 1},
                          {"shufflenet_v2_x1_0", 256, 24, 3, 1},
                          {"efficientnet_b0", 128, 32, 3, 1}};

ConvolutionProblem problem_of(const Case& each, ConvolutionOperation operation) {
  const Conv2dOptions options{
      .out_channels = each.out,
      .window = {.kernel = each.kernel, .stride = 2, .padding = each.padding}};
  const Shape input{each.batch, 224, 224, 3};
  return convolution_problem(operation, Precision::bf16, options, input,
                             conv2d_output_shape(options, input));
}

/// Zeros: nothing here depends on values.
class Operands {
 public:
  Operands(CudaContext& context, const ConvolutionProblem& problem, std::size_t scratch)
      : first_(context, problem.first_bytes()),
        second_(context, problem.second_bytes()),
        result_(context, problem.result_bytes()),
        scratch_(context, std::max<std::size_t>(scratch, 1)) {
    set_to_zero(context, first_.data(), first_.bytes());
    set_to_zero(context, second_.data(), second_.bytes());
  }
  void run(const ConvolutionPlan& plan) const {
    plan.run(first_.data(), second_.data(), result_.data(), scratch_.data());
  }

 private:
  DeviceBuffer first_, second_, result_, scratch_;
};

std::string measure(CudaContext& context, const ConvolutionProblem& problem) {
  constexpr std::size_t most_each = 10;
  const std::vector<ConvolutionPlanPtr> plans = candidate_plans(context, problem, most_each);
  std::size_t scratch = 0;
  for (const ConvolutionPlanPtr& plan : plans) scratch = std::max(scratch, plan->scratch());
  const Operands operands(context, problem, scratch);
  float best = 1e9F;
  std::string name;
  std::string own;
  for (const ConvolutionPlanPtr& plan : plans) {
    const bool is_own = plan->name().starts_with("stem ");
    const auto ms = time_kernels(
        context, [&] { operands.run(*plan); }, is_own ? 1e9F : best);
    if (!ms) continue;
    if (is_own) {
      own += fmt::format(", \"{}_ms\": {:.4f}", plan->name(), *ms);
    } else if (*ms < best) {
      best = *ms;
      name = plan->name();
    }
  }
  return fmt::format("\"libraries_ms\": {:.4f}, \"libraries_plan\": \"{}\"{}", best, name, own);
}

}  // namespace

int main() {
  try {
    CudaContext context(0);
    for (const Case& each : cases) {
      for (const auto operation :
           {ConvolutionOperation::forward, ConvolutionOperation::weight_gradient}) {
        const ConvolutionProblem problem = problem_of(each, operation);
        std::cout << fmt::format(
                         "{{\"gpu\": \"{}\", \"model\": \"{}\", \"operation\": \"{}\", \"batch\": "
                         "{}, \"out\": {}, \"kernel\": {}, \"precision\": \"bf16\", \"bytes\": {}, "
                         "{}}}",
                         context.device().name, each.model, name_of(operation), each.batch,
                         each.out, each.kernel,
                         problem.first_bytes() + problem.second_bytes() + problem.result_bytes(),
                         measure(context, problem))
                  << std::endl;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << "stem: " << error.what() << '\n';
    return 1;
  }
}
