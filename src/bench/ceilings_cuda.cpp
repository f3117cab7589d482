#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/heartbeat.h"
#include "base/log.h"
#include "base/median.h"
#include "bench/ceilings.h"
#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/device_buffer.h"
#include "layers/plans/cublas_matmul.h"
#include "layers/tuning/result_check.h"

namespace tandem {
namespace {

/// Of the median of several runs of what is enqueued.
double median_seconds(const CudaContext& context, const std::function<void()>& enqueue) {
  constexpr int rounds = 9;
  CudaEvent first;
  CudaEvent last;
  std::vector<double> seconds;
  enqueue();
  for (int i = 0; i < rounds; ++i) {
    heartbeat();
    first.record(context);
    enqueue();
    last.record(context);
    last.synchronize();
    seconds.push_back(last.seconds_since(first));
  }
  return median(std::move(seconds));
}

/// With random numbers: powers and clocks, and so times, differ for zeros.
void fill(CudaContext& context, DType dtype, const DeviceBuffer& buffer) {
  const auto count = static_cast<std::int64_t>(buffer.bytes() / size_of(dtype));
  fill_operand(context, dtype, count, 1, 1.0F, buffer.data());
}

double copy_rate(CudaContext& context) {
  constexpr std::size_t bytes = std::size_t{1} << 30U;
  const DeviceBuffer from(context, bytes);
  const DeviceBuffer to(context, bytes);
  fill(context, DType::f32, from);
  const double seconds = median_seconds(context, [&] {
    TANDEM_CUDA_CHECK(
        cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, context.stream()));
  });
  return 2.0 * bytes / seconds;
}

/// Of square matrices, left x right^T; nothing where cuBLASLt has no algorithm for it.
std::optional<double> product_rate(CudaContext& context, Precision precision) {
  constexpr std::int64_t extent = 8192;
  const DType dtype = activation_dtype(precision);
  const CublasMatmul product(context,
                             {.left = {.rows = extent, .columns = extent},
                              .right = {.rows = extent, .columns = extent, .transposed = true},
                              .precision = precision,
                              .result = dtype});
  if (!product.supported()) return std::nullopt;
  const std::size_t bytes = static_cast<std::size_t>(extent * extent) * size_of(dtype);
  const DeviceBuffer left(context, bytes);
  const DeviceBuffer right(context, bytes);
  const DeviceBuffer result(context, bytes);
  const DeviceBuffer scratch(context, std::max<std::size_t>(product.scratch(), 1));
  fill(context, dtype, left);
  fill(context, dtype, right);
  // Long enough for the clocks to settle under the load.
  const int repeats = precision == Precision::fp32 ? 1 : 8;
  const double seconds = median_seconds(context, [&] {
    for (int i = 0; i < repeats; ++i) {
      product.run(left.data(), right.data(), nullptr, result.data(), scratch.data());
    }
  });
  return repeats * 2.0 * extent * extent * extent / seconds;
}

}  // namespace

void measure_ceilings(CudaContext& context, Ceilings& ceilings) {
  context.activate();
  try {
    ceilings.bytes_per_second = copy_rate(context);
    for (const Precision precision : all_precisions) {
      ceilings.operations_per_second[static_cast<std::size_t>(precision)] =
          product_rate(context, precision);
    }
  } catch (const OutOfMemory& error) {
    log_info("the GPU has no memory left to measure all its ceilings: {}", error.what());
  }
}

}  // namespace tandem
