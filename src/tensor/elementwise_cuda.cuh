#pragma once

// Functions of single elements over whole tensors, at copy speed.

#include <array>
#include <cstdint>

#include "device/cuda_check.h"
#include "tensor/cuda_elements.cuh"
#include "tensor/tensor.h"

namespace tandem {

/// Whether full packs can be loaded from and stored to `memory`.
inline bool is_pack_aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

namespace elementwise {

constexpr int threads = 128;
/// Independent packs that one thread loads before it stores the first.
constexpr int unroll = 2;

/// No __restrict__: the output may be one of the inputs.
template <typename T, int Inputs>
struct Pointers {
  const T* inputs[Inputs];
  T* output;
};

template <typename T, int P, int Inputs, typename Function>
__device__ __forceinline__ Pack<T, P> apply(const Function& function,
                                            const Pack<T, P> (&packs)[Inputs]) {
  Pack<T, P> result;
#pragma unroll
  for (int e = 0; e < P; ++e) {
    float values[Inputs];
#pragma unroll
    for (int i = 0; i < Inputs; ++i) values[i] = packs[i].get(e);
    result.set(e, function(values));
  }
  return result;
}

template <typename T, int P, int Inputs, typename Function>
__global__ void __launch_bounds__(threads)
    map_kernel(std::int64_t count, Pointers<T, Inputs> at, Function function) {
  const std::int64_t first =
      std::int64_t{blockIdx.x} * (threads * unroll * P) + std::int64_t{threadIdx.x} * P;
  Pack<T, P> packs[unroll][Inputs];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::int64_t from = first + u * (threads * P);
    if (from + P > count) continue;
#pragma unroll
    for (int i = 0; i < Inputs; ++i) packs[u][i] = Pack<T, P>::load(at.inputs[i] + from);
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::int64_t from = first + u * (threads * P);
    if (from + P <= count) {
      apply<T, P, Inputs>(function, packs[u]).store(at.output + from);
      continue;
    }
    for (std::int64_t k = from; k < count; ++k) {
      Pack<T, 1> single[Inputs];
#pragma unroll
      for (int i = 0; i < Inputs; ++i) single[i] = Pack<T, 1>::load(at.inputs[i] + k);
      apply<T, 1, Inputs>(function, single).store(at.output + k);
    }
  }
}

}  // namespace elementwise

/// output[i] = function({inputs[0][i], ...}), a device function of `const float*`, over tensors of
/// one size and dtype. The output may be one of the inputs.
template <std::size_t Inputs, typename Function>
void map_elements(cudaStream_t stream, const std::array<const Tensor*, Inputs>& inputs,
                  const Tensor& output, const Function& function) {
  const std::int64_t count = output.elements();
  if (count == 0) return;
  with_element_type(output.dtype(), [&](auto element) {
    using T = decltype(element);
    elementwise::Pointers<T, static_cast<int>(Inputs)> at{};
    at.output = static_cast<T*>(output.raw());
    bool aligned = is_pack_aligned(output.raw());
    for (std::size_t i = 0; i < Inputs; ++i) {
      at.inputs[i] = static_cast<const T*>(inputs[i]->raw());
      aligned = aligned && is_pack_aligned(inputs[i]->raw());
    }
    constexpr int pack = full_pack<T>;
    constexpr int per_block = elementwise::unroll * elementwise::threads;
    if (aligned) {
      elementwise::map_kernel<T, pack>
          <<<blocks_for(count, per_block * pack), elementwise::threads, 0, stream>>>(count, at,
                                                                                     function);
    } else {
      elementwise::map_kernel<T, 1>
          <<<blocks_for(count, per_block), elementwise::threads, 0, stream>>>(count, at, function);
    }
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

}  // namespace tandem
