#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "support/function_behind.h"

// A library to preload where the card is newer than those that a test is about: the program is told
// that it has the capability, the multiprocessors, the L2 and the shared memory of the card
// $TANDEM_OLDER_CARD, "A100" or "A10", and how many blocks of a kernel one of its multiprocessors
// takes. A kernel may use more all the same, and what the libraries choose remains that of the card
// at hand. With kernels that are compiled for that older architecture
// (CMAKE_CUDA_ARCHITECTURES=80-virtual) its ways are those that run.

namespace {

struct Card {
  std::string_view name;
  int major;
  int minor;
  int multiprocessors;
  int threads;         ///< of a multiprocessor
  int blocks;          ///< of a multiprocessor, at most
  int shared_bytes;    ///< of a multiprocessor
  int block_reserves;  ///< of those, for each block
  int l2_bytes;
};

/// The CUDA C++ programming guide's table of technical specifications, and the cards' data sheets.
constexpr Card cards[] = {
    {"A100", 8, 0, 108, 2048, 32, 164 << 10, 1 << 10, 40 << 20},
    {"A10", 8, 6, 72, 1536, 16, 100 << 10, 1 << 10, 6 << 20},
};

const Card& card() {
  const char* const named = std::getenv("TANDEM_OLDER_CARD");
  for (const Card& each : cards) {
    if (named != nullptr && each.name == named) return each;
  }
  std::fprintf(stderr, "libtandem_older_card.so: set TANDEM_OLDER_CARD to A100 or A10\n");
  std::abort();
}

}  // namespace

#define TANDEM_VISIBLE __attribute__((visibility("default")))
// CUDA's headers rename some functions, by version.
#define TANDEM_TEXT(name) #name
#define TANDEM_BEHIND(name) function_behind<decltype(name)>(TANDEM_TEXT(name))

extern "C" {

TANDEM_VISIBLE cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  static const auto ask = TANDEM_BEHIND(cudaGetDeviceProperties);
  const cudaError_t status = ask(properties, device);
  if (status != cudaSuccess) return status;
  properties->major = card().major;
  properties->minor = card().minor;
  properties->multiProcessorCount =
      std::min(properties->multiProcessorCount, card().multiprocessors);
  properties->l2CacheSize = card().l2_bytes;
  return status;
}

TANDEM_VISIBLE cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device) {
  static const auto ask = TANDEM_BEHIND(cudaDeviceGetAttribute);
  const cudaError_t status = ask(value, what, device);
  if (status == cudaSuccess && what == cudaDevAttrMaxSharedMemoryPerBlockOptin)
    *value = std::min(*value, card().shared_bytes - card().block_reserves);
  return status;
}

TANDEM_VISIBLE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* kernel, int threads, std::size_t dynamic_bytes, unsigned int flags) {
  static const auto ask = TANDEM_BEHIND(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  static const auto ask_kernel = TANDEM_BEHIND(cudaFuncGetAttributes);
  cudaFuncAttributes attributes{};
  cudaError_t status = ask(blocks, kernel, threads, dynamic_bytes, flags);
  if (status == cudaSuccess) status = ask_kernel(&attributes, kernel);
  if (status != cudaSuccess) return status;
  const int bytes = static_cast<int>(dynamic_bytes + attributes.sharedSizeBytes);
  *blocks = std::min({*blocks, card().blocks, card().threads / threads,
                      card().shared_bytes / (bytes + card().block_reserves)});
  return status;
}

}  // extern "C"
