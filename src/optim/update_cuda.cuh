#pragma once

// How kernels walk over the blocks of an arena, one thread block each.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "optim/peer_copies.h"
#include "optim/step_control.h"
#include "optim/update_blocks.h"
#include "tensor/cuda_elements.cuh"
#include "tensor/tensor.h"

namespace tandem {

constexpr int update_threads = 256;

/// Whether 16-byte accesses to an arena of f32, and 8-byte ones to its rounded copy, may start at
/// these addresses.
template <typename T>
__device__ __forceinline__ bool is_aligned(const T* first) {
  return reinterpret_cast<std::uintptr_t>(first) % (4 * sizeof(T)) == 0;
}

/// Applies `rule` to the `elements` of a block; all `update_threads` threads take part. A rule
/// points to the block's first elements and has, for widths of 4 and 1 elements,
///
///     template <int width> using Values;                              what it reads
///     template <int width> Values<width> load(int at) const;
///     template <int width> void update(int at, const Values<width>&); computes and stores
///     bool aligned() const;                                           whether width 4 may be used
template <typename Rule>
__device__ __forceinline__ void update_block(Rule& rule, int elements) {
  constexpr int width = 4;
  constexpr int at_once = 2;  // packs whose loads are all on their way before the first is used
  const int packs = rule.aligned() ? elements / width : 0;
  int pack = static_cast<int>(threadIdx.x);
  for (; pack + (at_once - 1) * update_threads < packs; pack += at_once * update_threads) {
    typename Rule::template Values<width> values[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      values[i] = rule.template load<width>(width * (pack + i * update_threads));
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      rule.template update<width>(width * (pack + i * update_threads), values[i]);
    }
  }
  for (; pack < packs; pack += update_threads) {
    rule.template update<width>(width * pack, rule.template load<width>(width * pack));
  }
  for (int at = width * packs + static_cast<int>(threadIdx.x); at < elements;
       at += update_threads) {
    rule.template update<1>(at, rule.template load<1>(at));
  }
}

/// Instead of an element type: parameters have no rounded copy.
struct NoWeight {};

/// Where a block's new parameters go beside the arena: rounded, and to other devices. All of these
/// have the arena's offsets. `peers` outlives it.
template <typename Weight>
class WeightCopy {
 public:
  __device__ WeightCopy(Weight* all, const PeerCopies& peers, const UpdateBlock& block)
      : all_(all), peers_(peers), offset_(block.offset), read_unrounded_(block.read_unrounded) {}

  __device__ bool aligned() const { return !rounds || is_aligned(all_ + offset_); }
  template <int width>
  __device__ void store(int at, const Pack<float, width>& parameters) const {
    const std::int64_t place = offset_ + at;
    if constexpr (rounds) {
      Pack<Weight, width> rounded;
#pragma unroll
      for (int i = 0; i < width; ++i) rounded.set(i, parameters.values[i]);
      rounded.store(all_ + place);
      for (int p = 0; p < peers_.count; ++p) {
        rounded.store(static_cast<Weight*>(peers_.weights[p]) + place);
      }
    }
    if (rounds && !read_unrounded_) return;
    for (int p = 0; p < peers_.count; ++p) parameters.store(peers_.parameters[p] + place);
  }

 private:
  static constexpr bool rounds = !std::is_same_v<Weight, NoWeight>;

  Weight* all_;
  const PeerCopies& peers_;
  std::int64_t offset_;
  bool read_unrounded_;
};

/// Calls `use` with a typed pointer to the rounded copy of the parameters, a null NoWeight* where
/// `weights` is undefined or f32: the parameters themselves.
template <typename Use>
void with_weights(const Tensor& weights, Use&& use) {
  if (!weights.defined() || weights.dtype() == DType::f32) {
    return use(static_cast<NoWeight*>(nullptr));
  }
  switch (weights.dtype()) {
    case DType::bf16:
      return use(static_cast<__nv_bfloat16*>(weights.raw()));
    case DType::f16:
      return use(static_cast<__half*>(weights.raw()));
    default:
      throw Error(fmt::format("weights rounded to {}", name_of(weights.dtype())));
  }
}

/// One thread block for each block of the arena.
template <template <typename> class Rule, typename Update, typename Weight>
__global__ void __launch_bounds__(update_threads)
    update_all(const __grid_constant__ Update update, Weight* weights) {
  const UpdateBlock block = update.blocks.data()[blockIdx.x];
  if (skips(update.control)) return;
  const auto rule =
      Rule<Weight>::of(update, block, WeightCopy<Weight>(weights, update.peers, block));
  update_block(rule, static_cast<int>(block.elements));
}

/// An optimizer's update (SgdUpdate, AdamWUpdate, LarsUpdate) by its rule, which says by
///
///     static Rule<Weight> of(Update update, const UpdateBlock& block, WeightCopy<Weight> weights);
///
/// what it does in a block.
template <template <typename> class Rule, typename Update>
void launch_update(CudaContext& context, const Update& update) {
  if (update.blocks.empty()) return;
  with_weights(update.weights, [&](auto* weights) {
    update_all<Rule>
        <<<static_cast<unsigned>(update.blocks.size()), update_threads, 0, context.stream()>>>(
            update, weights);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

}  // namespace tandem
