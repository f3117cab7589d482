#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>

#include "cli/faults/rank_fault.h"

namespace tandem::cli {
namespace {

__device__ volatile int g_over = 0;  // and stays so

__global__ void write_kernel(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}

__global__ void spin_kernel() {
  while (g_over == 0) __nanosleep(1000);
}

void require(cudaError_t status) {
  if (status != cudaSuccess) std::abort();
}

}  // namespace

void write_astray(void* stream) {
  constexpr std::uintptr_t nobodys = 0x10;
  write_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(nobodys);
  require(cudaGetLastError());
}

void spin(void* stream) {
  spin_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  require(cudaGetLastError());
}

void flood(void* stream) {
  constexpr int threads = 1024;
  int device = 0;
  int processors = 0;
  int blocks = 0;
  require(cudaGetDevice(&device));
  require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin_kernel, threads, 0));
  spin_kernel<<<processors * blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>();
  require(cudaGetLastError());
}

}  // namespace tandem::cli
