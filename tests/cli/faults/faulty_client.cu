#include <cuda_runtime.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// A process that is a nuisance to the others of a GPU:
//   faulty_client fault             writes to an address that is nobody's, under the MPS daemon of
//                                   its environment; ends with 0 where the device took it as a
//                                   fault
//   faulty_client hold BYTES FILE   takes all memory of the GPU but so many bytes, makes the file,
//                                   and keeps the memory until it is ended

namespace {

__global__ void write_astray(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}

int fault() {
  constexpr std::uintptr_t nobodys = 0x10;
  write_astray<<<1, 1>>>(nobodys);
  const cudaError_t status = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(status));
  return status != cudaSuccess ? 0 : 1;
}

int hold(std::size_t left, const char* file) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 1;
  void* memory = nullptr;
  if (free > left && cudaMalloc(&memory, free - left) != cudaSuccess) return 1;
  std::FILE* made = std::fopen(file, "w");
  if (made == nullptr || std::fclose(made) != 0) return 1;
  return ::pause();
}

}  // namespace

int main(int count, char** arguments) {
  if (cudaFree(nullptr) != cudaSuccess) return 2;  // no context
  if (count == 2 && std::strcmp(arguments[1], "fault") == 0) return fault();
  if (count == 4 && std::strcmp(arguments[1], "hold") == 0) {
    return hold(std::strtoull(arguments[2], nullptr, 10), arguments[3]);
  }
  return 2;
}
