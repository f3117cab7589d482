// Times 1x1 convolutions with the statistics of their results, of models at 224 px: the plan that
// is chosen for the convolution, with the kernel that reads its result after it, and each kernel
// that does both. A line of JSON for each.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <iostream>

#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "device/memory_kernels.h"
#include "layers/convolution/conv2d.h"
#include "layers/normalisation/pointwise_statistics_cuda.h"
#include "layers/tuning/kernel_timing.h"
#include "layers/tuning/plan_tuner.h"

namespace {

using namespace tandem;

struct Case {
  const char* model;
  std::int64_t batch, side, in, out;
};

constexpr Case cases[] = {
    {"resnet50", 256, 56, 64, 64},        {"resnet50", 256, 56, 64, 256},
    {"resnet50", 256, 56, 256, 64},       {"resnet50", 256, 28, 128, 512},
    {"resnet50", 256, 14, 256, 1024},     {"resnet152", 64, 56, 64, 256},
    {"resnet152", 64, 14, 256, 1024},     {"mobilenet_v2", 256, 112, 32, 16},
    {"mobilenet_v2", 256, 112, 16, 96},   {"mobilenet_v2", 256, 56, 96, 24},
    {"mobilenet_v2", 256, 56, 24, 144},   {"mobilenet_v2", 256, 56, 144, 24},
    {"mobilenet_v2", 256, 28, 32, 192},   {"mobilenet_v2", 256, 28, 192, 32},
    {"mobilenet_v2", 256, 14, 64, 384},   {"mobilenet_v2", 256, 14, 96, 576},
    {"mobilenet_v2", 256, 7, 160, 960},   {"efficientnet_b0", 128, 112, 16, 96},
    {"efficientnet_b0", 128, 56, 24, 144}};

ConvolutionProblem problem_of(const Case& each) {
  const Conv2dOptions options{.out_channels = each.out, .window = {.kernel = 1}};
  const Shape input{each.batch, each.side, each.side, each.in};
  return convolution_problem(ConvolutionOperation::forward, Precision::bf16, options, input,
                             conv2d_output_shape(options, input));
}

/// Zeros: nothing here depends on values.
class Zeros {
 public:
  Zeros(CudaContext& context, std::size_t bytes) : buffer_(context, bytes) {
    set_to_zero(context, buffer_.data(), bytes);
  }
  template <typename T = std::byte>
  T* data() const {
    return reinterpret_cast<T*>(buffer_.data());
  }

 private:
  DeviceBuffer buffer_;
};

class Trial {
 public:
  Trial(CudaContext& context, const Case& each)
      : context_(context),
        problem_(problem_of(each)),
        shape_{.rows = problem_.pixels(), .channels = each.out, .groups = 1},
        plan_(choose_plan(context, problem_)),
        x_(context, problem_.first_bytes()),
        weight_(context, problem_.second_bytes()),
        y_(context, problem_.result_bytes()),
        scratch_(context, std::max<std::size_t>(plan_->scratch(), 1)),
        parameters_(context, 4 * channel_bytes()),
        table_(context, BatchNormTable::bytes(shape_)) {}

  double bytes() const {
    return static_cast<double>(problem_.first_bytes() + problem_.result_bytes());
  }

  void convolve() { plan_->run(x_.data(), weight_.data(), y_.data(), scratch_.data()); }

  /// Milliseconds of the convolution, of the statistics, and of one behind the other.
  std::array<float, 3> apart() {
    const Zeros partials(context_, batch_norm_partial_bytes(context_, shape_, DType::bf16));
    const Zeros counters(context_,
                         batch_norm_counters(context_, shape_, DType::bf16) * sizeof(unsigned));
    const auto sum = [&] {
      batch_norm_statistics(
          context_, shape_, Tensor(y_.data(), {shape_.rows, shape_.channels}, DType::bf16),
          statistics(), {.partials = partials.data(), .counters = counters.data<unsigned>()});
    };
    return {time([&] { convolve(); }), time(sum), time([&] {
              convolve();
              sum();
            })};
  }

  /// The same of the kernel with so many channels a block; -1 where it does not take them.
  float fused(int columns) {
    const auto tiles = make_pointwise_tiles(context_, problem_, 1, columns);
    if (!tiles) return -1.0F;
    const Zeros partials(context_, tiles->partials() * sizeof(float));
    const Zeros counters(context_, tiles->counters() * sizeof(unsigned));
    return time([&] {
      pointwise_with_statistics(
          context_, *tiles, x_.data(), weight_.data(), y_.data(), statistics(),
          {.partials = partials.data(), .counters = counters.data<unsigned>()});
    });
  }

 private:
  std::size_t channel_bytes() const {
    return static_cast<std::size_t>(shape_.channels) * sizeof(float);
  }
  BatchNormStatistics statistics() const {
    auto* const first = parameters_.data<float>();
    return {.weight = first,
            .bias = first + shape_.channels,
            .running_mean = first + 2 * shape_.channels,
            .running_variance = first + 3 * shape_.channels,
            .table = BatchNormTable::at(table_.data(), shape_),
            .rows = static_cast<double>(shape_.rows),
            .epsilon = 1e-5F,
            .momentum = 0.1F};
  }
  float time(const std::function<void()>& enqueue) {
    return time_kernels(context_, enqueue, 1e9F).value_or(-1.0F);
  }

  CudaContext& context_;
  ConvolutionProblem problem_;
  BatchNormShape shape_;
  ConvolutionPlanPtr plan_;
  Zeros x_, weight_, y_, scratch_, parameters_, table_;
};

}  // namespace

int main() {
  try {
    CudaContext context(0);
    for (const Case& each : cases) {
      Trial trial(context, each);
      const auto [convolution, statistics, both] = trial.apart();
      std::cout << fmt::format(
          "{{\"gpu\": \"{}\", \"model\": \"{}\", \"batch\": {}, \"side\": {}, \"in\": {}, \"out\": "
          "{}, \"precision\": \"bf16\", \"bytes\": {:.0f}, \"convolution_ms\": {:.4f}, "
          "\"statistics_ms\": {:.4f}, \"both_ms\": {:.4f}",
          context.device().name, each.model, each.batch, each.side, each.in, each.out,
          trial.bytes(), convolution, statistics, both);
      for (const int columns : pointwise_columns) {
        std::cout << fmt::format(", \"fused_{}_ms\": {:.4f}", columns, trial.fused(columns));
      }
      std::cout << "}" << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "pointwise_statistics: " << error.what() << '\n';
    return 1;
  }
}
