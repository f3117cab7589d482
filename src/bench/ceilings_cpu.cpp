#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "base/heartbeat.h"
#include "bench/ceilings.h"
#include "layers/linear/linear.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the fastest of several runs, after one that is not timed: other programs only slow it down.
double least_seconds(const std::function<void()>& work) {
  constexpr double enough = 0.3;
  constexpr int most = 20;
  work();
  double least = 0.0;
  double spent = 0.0;
  for (int i = 0; i < most && (i < 3 || spent < enough); ++i) {
    heartbeat();
    const Clock::time_point start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    least = i == 0 ? seconds : std::min(least, seconds);
    spent += seconds;
  }
  return least;
}

double copy_rate(const CpuContext& context) {
  constexpr std::size_t bytes = std::size_t{128} << 20U;
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  const auto parts = static_cast<std::size_t>(context.threads());
  const std::size_t part = bytes / parts;
  const double seconds = least_seconds([&] {
#pragma omp parallel for schedule(static) num_threads(context.threads())
    for (std::size_t i = 0; i < parts; ++i) {
      std::memcpy(to.data() + i * part, from.data() + i * part, part);
    }
  });
  return 2.0 * static_cast<double>(part * parts) / seconds;
}

/// As a classifier computes it, by oneDNN.
double product_rate(CpuContext& context) {
  constexpr std::int64_t extent = 1024;
  const Shape square{extent, extent};
  const std::unique_ptr<LayerKernel> kernel =
      make_linear_kernel(context, false, {.inputs = {square}, .output = square});
  std::vector<float> left(static_cast<std::size_t>(square.elements()), 0.5F);
  std::vector<float> right(left.size(), 0.25F);
  std::vector<float> result(left.size());
  std::vector<std::byte> scratch(kernel->memory().forward_scratch);
  const std::vector<Tensor> inputs{Tensor(left.data(), square)};
  const std::vector<Tensor> weights{Tensor(right.data(), square)};
  const double seconds = least_seconds([&] {
    kernel->forward({.inputs = inputs,
                     .output = Tensor(result.data(), square),
                     .parameters = weights,
                     .weights = weights,
                     .buffers = {},
                     .scratch = scratch.data()});
  });
  return 2.0 * extent * extent * extent / seconds;
}

}  // namespace

void measure_ceilings(CpuContext& context, Ceilings& ceilings) {
  context.activate();
  ceilings.bytes_per_second = copy_rate(context);
  ceilings.operations_per_second[static_cast<std::size_t>(Precision::fp32)] = product_rate(context);
}

Ceilings measure_ceilings(AnyContext& context) {
  Ceilings ceilings;
  std::visit([&](auto& device) { measure_ceilings(device, ceilings); }, context);
  return ceilings;
}

}  // namespace tandem
