// Whether cuBLASLt's products are right in a process that may use a share of the multiprocessors
// (an MPS client with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE): the eight algorithms that its heuristics
// name first, for products like those of small models, into a result full of NaNs, against a plain
// kernel. One line of JSON. products_in_sm_share.sh runs it for several shares.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "device/cuda_check.h"

namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;
constexpr int most_algorithms = 8;

/// Of matrices by columns: result (m x n) = op(left) x op(right), sums over k.
struct Product {
  int m, n, k;
  bool left_transposed, right_transposed;
  cudaDataType_t result;
};

constexpr std::array products{
    Product{1024, 128, 1024, true, false, CUDA_R_16BF},
    Product{1024, 128, 1024, false, false, CUDA_R_16BF},
    Product{1024, 1024, 128, false, true, CUDA_R_32F},
    Product{512, 128, 512, true, false, CUDA_R_16BF},
    Product{512, 128, 512, false, false, CUDA_R_16BF},
    Product{512, 512, 128, false, true, CUDA_R_32F},
    Product{4096, 512, 1024, true, false, CUDA_R_16BF},
    Product{4096, 4096, 4096, true, false, CUDA_R_16BF},
};

template <typename T>
struct DeviceArray {
  explicit DeviceArray(std::size_t count) : size(count) {
    TANDEM_CUDA_CHECK(cudaMalloc(&data, count * sizeof(T)));
  }
  ~DeviceArray() { (void)cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  std::vector<T> host() const {
    std::vector<T> copy(size);
    TANDEM_CUDA_CHECK(cudaMemcpy(copy.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
  }

  T* data = nullptr;
  std::size_t size;
};

__global__ void fill(std::size_t count, unsigned seed, __nv_bfloat16* values) {
  const std::size_t at = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= count) return;
  unsigned x = static_cast<unsigned>(at) * 2654435761U + seed;
  x ^= x >> 15U;
  x *= 2246822519U;
  x ^= x >> 13U;
  values[at] = __float2bfloat16(static_cast<float>(x & 0xffffU) / 65536.0F - 0.5F);
}

__global__ void plain_product(Product p, const __nv_bfloat16* left, const __nv_bfloat16* right,
                              float* result) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int column = static_cast<int>(blockIdx.y);
  if (row >= p.m) return;
  float sum = 0.0F;
  for (int i = 0; i < p.k; ++i) {
    const std::size_t l = p.left_transposed ? static_cast<std::size_t>(row) * p.k + i
                                            : static_cast<std::size_t>(i) * p.m + row;
    const std::size_t r = p.right_transposed ? static_cast<std::size_t>(i) * p.n + column
                                             : static_cast<std::size_t>(column) * p.k + i;
    sum += __bfloat162float(left[l]) * __bfloat162float(right[r]);
  }
  result[static_cast<std::size_t>(column) * p.m + row] = sum;
}

cublasLtMatrixLayout_t layout(cudaDataType_t type, int rows, int columns, bool transposed) {
  if (transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t made = nullptr;
  TANDEM_CUDA_CHECK(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), rows));
  return made;
}

struct Counts {
  int tried = 0;
  int wrong = 0;
  std::map<std::string, int> wrong_by_kernel;
};

std::string kernel_of(const cublasLtMatmulAlgo_t& algorithm) {
  int id = 0;
  std::uint16_t cluster = 0;
  std::size_t written = 0;
  TANDEM_CUDA_CHECK(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id,
                                                         sizeof(id), &written));
  TANDEM_CUDA_CHECK(cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster, sizeof(cluster), &written));
  return fmt::format("algorithm {}, cluster shape {}", id, cluster);
}

/// A comparison that a NaN fails. Results have a standard deviation of sqrt(k) / 12.
bool is_right(const Product& p, const std::vector<float>& wanted,
              const DeviceArray<float>& result) {
  const std::vector<float> raw = result.host();
  const auto* narrow = reinterpret_cast<const __nv_bfloat16*>(raw.data());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const float got = p.result == CUDA_R_32F ? raw[i] : __bfloat162float(narrow[i]);
    if (!(std::abs(got - wanted[i]) <= 0.05F + 0.02F * std::abs(wanted[i]))) return false;
  }
  return true;
}

/// A product as cuBLASLt describes it, and the algorithms that it proposes.
class Proposals {
 public:
  Proposals(cublasLtHandle_t handle, const Product& p)
      : layouts_{layout(CUDA_R_16BF, p.m, p.k, p.left_transposed),
                 layout(CUDA_R_16BF, p.k, p.n, p.right_transposed),
                 layout(p.result, p.m, p.n, false)} {
    TANDEM_CUDA_CHECK(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, p.left_transposed);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, p.right_transposed);
    cublasLtMatmulPreference_t preference = nullptr;
    TANDEM_CUDA_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    TANDEM_CUDA_CHECK(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)));
    TANDEM_CUDA_CHECK(cublasLtMatmulAlgoGetHeuristic(handle, operation_, layouts_[0], layouts_[1],
                                                     layouts_[2], layouts_[2], preference,
                                                     most_algorithms, found_.data(), &count_));
    TANDEM_CUDA_CHECK(cublasLtMatmulPreferenceDestroy(preference));
  }
  ~Proposals() {
    for (cublasLtMatrixLayout_t made : layouts_) (void)cublasLtMatrixLayoutDestroy(made);
    (void)cublasLtMatmulDescDestroy(operation_);
  }
  Proposals(const Proposals&) = delete;
  Proposals& operator=(const Proposals&) = delete;

  int count() const { return count_; }
  const cublasLtMatmulHeuristicResult_t& operator[](int i) const {
    return found_[static_cast<std::size_t>(i)];
  }
  void run(cublasLtHandle_t handle, int i, const void* left, const void* right, void* result,
           void* workspace) const {
    const float one = 1.0F;
    const float zero = 0.0F;
    TANDEM_CUDA_CHECK(cublasLtMatmul(
        handle, operation_, &one, left, layouts_[0], right, layouts_[1], &zero, result, layouts_[2],
        result, layouts_[2], &(*this)[i].algo, workspace, (*this)[i].workspaceSize, nullptr));
  }

 private:
  void transpose(cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    TANDEM_CUDA_CHECK(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)));
  }

  cublasLtMatmulDesc_t operation_ = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> layouts_;
  std::array<cublasLtMatmulHeuristicResult_t, most_algorithms> found_{};
  int count_ = 0;
};

void try_product(cublasLtHandle_t handle, const Product& p, Counts& counts) {
  const auto elements = [](int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  };
  const DeviceArray<__nv_bfloat16> left(elements(p.m, p.k));
  const DeviceArray<__nv_bfloat16> right(elements(p.k, p.n));
  const DeviceArray<float> result(elements(p.m, p.n));
  const DeviceArray<std::byte> workspace(workspace_bytes);
  constexpr unsigned threads = 256;
  const auto blocks = [](std::size_t count) {
    return static_cast<unsigned>((count + threads - 1) / threads);
  };
  fill<<<blocks(left.size), threads>>>(left.size, 1, left.data);
  fill<<<blocks(right.size), threads>>>(right.size, 7, right.data);
  plain_product<<<dim3(blocks(static_cast<std::size_t>(p.m)), static_cast<unsigned>(p.n)),
                  threads>>>(p, left.data, right.data, result.data);
  TANDEM_CUDA_CHECK_LAUNCH();
  const std::vector<float> wanted = result.host();
  const Proposals proposals(handle, p);
  for (int i = 0; i < proposals.count(); ++i) {
    TANDEM_CUDA_CHECK(cudaMemset(workspace.data, 0xff, workspace.size));
    TANDEM_CUDA_CHECK(cudaMemset(result.data, 0xff, result.size * sizeof(float)));
    proposals.run(handle, i, left.data, right.data, result.data, workspace.data);
    ++counts.tried;
    if (is_right(p, wanted, result)) continue;
    ++counts.wrong;
    ++counts.wrong_by_kernel[kernel_of(proposals[i].algo)];
  }
}

void run() {
  cudaDeviceProp device{};
  TANDEM_CUDA_CHECK(cudaGetDeviceProperties(&device, 0));
  cublasLtHandle_t handle = nullptr;
  TANDEM_CUDA_CHECK(cublasLtCreate(&handle));
  Counts counts;
  for (const Product& product : products) try_product(handle, product, counts);
  (void)cublasLtDestroy(handle);
  const char* share = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  std::vector<std::string> kernels;
  for (const auto& [kernel, wrong] : counts.wrong_by_kernel) {
    kernels.push_back(fmt::format(R"("{}": {})", kernel, wrong));
  }
  std::cout << fmt::format(
      R"({{"gpu": "{}", "share": {}, "multiprocessors": {}, "cublaslt": {}, "tried": {}, )"
      R"("wrong": {}, "wrong_by_kernel": {{{}}}}})"
      "\n",
      device.name, share == nullptr ? "null" : share, device.multiProcessorCount,
      cublasLtGetVersion(), counts.tried, counts.wrong, fmt::join(kernels, ", "));
}

}  // namespace

int main() {
  try {
    run();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
