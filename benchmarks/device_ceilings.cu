// What the GPU can do at best: the rate of a copy, of matrix products on random data, and the gap
// between two kernels inside a CUDA graph. One line of JSON. The figures that floors are made of.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <vector>

#include "device/arena.h"
#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "device/cuda_libraries.h"

namespace tandem {
namespace {

__global__ void empty_kernel() {}

__global__ void copy_kernel(const uint4* from, uint4* to, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    to[i] = from[i];
  }
}

/// Bits of numbers in (-1, 1): the sign and exponents from 2^-8 to 2^-1, hashed from the place.
/// Zeros would be multiplied at another speed.
__global__ void noise_kernel(std::uint16_t* data, std::int64_t count, int mantissa_bits, int bias) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    std::uint32_t hash = static_cast<std::uint32_t>(i) * 0x9E3779B9U;
    hash = (hash ^ hash >> 16) * 0x85EBCA6BU;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35U;
    hash ^= hash >> 16;
    const std::uint32_t exponent = static_cast<std::uint32_t>(bias) - 1 - (hash >> 29);
    const std::uint32_t mantissa = hash & ((1U << mantissa_bits) - 1);
    data[i] =
        static_cast<std::uint16_t>((hash >> 13 & 0x8000U) | exponent << mantissa_bits | mantissa);
  }
}

/// The median over `rounds` of the seconds that what is enqueued takes.
double median_seconds(const CudaContext& context, int rounds,
                      const std::function<void()>& enqueue) {
  CudaEvent first;
  CudaEvent last;
  std::vector<double> seconds;
  enqueue();
  for (int i = 0; i < rounds; ++i) {
    first.record(context);
    enqueue();
    last.record(context);
    last.synchronize();
    seconds.push_back(last.seconds_since(first));
  }
  std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
  return seconds[static_cast<std::size_t>(rounds / 2)];
}

/// Bytes read and written a second, by the driver's copy and by a kernel of 16-byte accesses.
std::array<double, 2> copy_rates(AnyContext& any) {
  auto& context = std::get<CudaContext>(any);
  constexpr std::size_t bytes = std::size_t{2} << 30;
  const Arena from(any, bytes, "the copy's source");
  const Arena to(any, bytes, "the copy's result");
  noise_kernel<<<4096, 256, 0, context.stream()>>>(reinterpret_cast<std::uint16_t*>(from.data()),
                                                   bytes / sizeof(std::uint16_t), 7, 127);
  TANDEM_CUDA_CHECK_LAUNCH();
  const double driver = median_seconds(context, 9, [&] {
    TANDEM_CUDA_CHECK(
        cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, context.stream()));
  });
  const int blocks = 16 * context.device().multiprocessors;
  const double kernel = median_seconds(context, 9, [&] {
    copy_kernel<<<blocks, 512, 0, context.stream()>>>(reinterpret_cast<const uint4*>(from.data()),
                                                      reinterpret_cast<uint4*>(to.data()),
                                                      bytes / sizeof(uint4));
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  return {2.0 * bytes / driver, 2.0 * bytes / kernel};
}

/// A matrix product of cuBLASLt, D = A^T B, all three `extent` x `extent`, f32 sums, with the
/// algorithm that its heuristics name first.
class Product {
 public:
  Product(CudaContext& context, cudaDataType_t type, std::uint64_t extent) {
    const auto length = static_cast<std::int64_t>(extent);
    const cublasOperation_t transpose = CUBLAS_OP_T;
    TANDEM_CUDA_CHECK(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TANDEM_CUDA_CHECK(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                     &transpose, sizeof(transpose)));
    TANDEM_CUDA_CHECK(cublasLtMatrixLayoutCreate(&layout, type, extent, extent, length));
    TANDEM_CUDA_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const std::size_t most = workspace_bytes;
    TANDEM_CUDA_CHECK(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)));
    int found = 0;
    cublasLtMatmulHeuristicResult_t result{};
    TANDEM_CUDA_CHECK(cublasLtMatmulAlgoGetHeuristic(context.libraries().cublas, operation, layout,
                                                     layout, layout, layout, preference, 1, &result,
                                                     &found));
    TANDEM_CHECK(found == 1, "cuBLASLt has no algorithm");
    algorithm = result.algo;
  }
  // What fails here harms nobody.
  ~Product() {
    (void)cublasLtMatmulPreferenceDestroy(preference);
    (void)cublasLtMatrixLayoutDestroy(layout);
    (void)cublasLtMatmulDescDestroy(operation);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

double product_rate(AnyContext& any, cudaDataType_t type, int mantissa_bits, int bias) {
  auto& context = std::get<CudaContext>(any);
  constexpr std::int64_t extent = 8192;
  constexpr std::size_t bytes = extent * extent * sizeof(std::uint16_t);
  const Arena operands(any, 2 * bytes, "the product's operands");
  const Arena result(any, bytes, "the product");
  const Arena workspace(any, Product::workspace_bytes, "the product's workspace");
  noise_kernel<<<4096, 256, 0, context.stream()>>>(
      reinterpret_cast<std::uint16_t*>(operands.data()), 2 * extent * extent, mantissa_bits, bias);
  TANDEM_CUDA_CHECK_LAUNCH();
  const Product product(context, type, extent);
  const float one = 1.0F;
  const float zero = 0.0F;
  constexpr int repeats = 10;
  const double seconds = median_seconds(context, 9, [&] {
    for (int i = 0; i < repeats; ++i) {
      TANDEM_CUDA_CHECK(cublasLtMatmul(
          context.libraries().cublas, product.operation, &one, operands.data(), product.layout,
          operands.data() + bytes, product.layout, &zero, result.data(), product.layout,
          result.data(), product.layout, &product.algorithm, workspace.data(),
          Product::workspace_bytes, context.stream()));
    }
  });
  return repeats * 2.0 * extent * extent * extent / seconds;
}

/// Seconds from one empty kernel of a chain to the next.
double launch_gap(const CudaContext& context) {
  constexpr int kernels = 1000;
  CudaGraph chain(context, [&] {
    for (int i = 0; i < kernels; ++i) empty_kernel<<<1, 32, 0, context.stream()>>>();
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  return median_seconds(context, 9, [&] { chain.launch(); }) / kernels;
}

void run(int index) {
  AnyContext any = CudaContext(index);
  const CudaDevice& device = std::get<CudaContext>(any).device();
  const auto [driver_copy, kernel_copy] = copy_rates(any);
  const double bf16 = product_rate(any, CUDA_R_16BF, 7, 127);
  const double fp16 = product_rate(any, CUDA_R_16F, 10, 15);
  std::cout << fmt::format(
      R"({{"gpu": "{}", "multiprocessors": {}, "memory_bytes": {}, "l2_bytes": {}, )"
      R"("copy_bytes_per_second": {:.4g}, "kernel_copy_bytes_per_second": {:.4g}, )"
      R"("bf16_operations_per_second": {:.4g}, "fp16_operations_per_second": {:.4g}, )"
      R"("graph_launch_gap_seconds": {:.3g}}})"
      "\n",
      device.name, device.multiprocessors, device.memory_bytes, device.l2_bytes, driver_copy,
      kernel_copy, bf16, fp16, launch_gap(std::get<CudaContext>(any)));
}

}  // namespace
}  // namespace tandem

/// Takes the device's index, 0 without.
int main(int argc, char** argv) {
  try {
    tandem::run(argc > 1 ? std::atoi(argv[1]) : 0);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
