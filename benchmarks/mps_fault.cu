// A client of an MPS server that computes, idles, or makes a fault of a kind after some hundred
// kernels, and says which error CUDA tells it, in a line of JSON: mps_fault
// computes|idles|address|misaligned|trap. mps_fault.py runs them beside each other.

#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kernels_before_the_fault = 300;
constexpr std::chrono::seconds patience{6};

__global__ void compute(float* values) {
  float value = values[threadIdx.x];
  for (int i = 0; i < 200'000; ++i) value = value * 1.0001F + 1e-3F;
  values[threadIdx.x] = value;
}

__global__ void write(std::uintptr_t address) { *reinterpret_cast<volatile int*>(address) = 1; }

__global__ void trap() { asm("trap;"); }

void make_fault(const std::string& kind, float* memory) {
  if (kind == "address") write<<<1, 1>>>(0x10);
  if (kind == "misaligned") write<<<1, 1>>>(reinterpret_cast<std::uintptr_t>(memory) + 1);
  if (kind == "trap") trap<<<1, 1>>>();
}

bool is_role(const std::string& word) {
  constexpr std::array roles{"computes", "idles", "address", "misaligned", "trap"};
  return std::find(roles.begin(), roles.end(), word) != roles.end();
}

cudaError_t run(const std::string& role) {
  constexpr int threads = 256;
  float* memory = nullptr;
  cudaError_t error = cudaMalloc(&memory, threads * sizeof(float));
  if (error == cudaSuccess) error = cudaMemset(memory, 0, threads * sizeof(float));
  const auto start = Clock::now();
  for (int i = 0; error == cudaSuccess && Clock::now() - start < patience; ++i) {
    if (role == "idles") {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else {
      compute<<<1, threads>>>(memory);
    }
    if (i == kernels_before_the_fault) make_fault(role, memory);
    error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
  }
  return error;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 || !is_role(arguments[1])) return 2;
  const cudaError_t error = run(arguments[1]);
  std::printf("{\"role\": \"%s\", \"process\": %d, \"error\": \"%s\"}\n", arguments[1], ::getpid(),
              cudaGetErrorName(error));
  return 0;
}
