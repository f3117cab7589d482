#include <algorithm>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/shuffle_join.h"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"
#include "tensor/packed_words.cuh"

// A thread takes H channels of each input, which are 2 H neighbouring ones of the result: accesses
// of a warp are contiguous on both sides.

namespace tandem {
namespace {

constexpr int threads = 128;

struct JoinPlace {
  std::int64_t channels_a;
  std::int64_t channels_b;
  std::uint32_t items;   // of H channels
  FastDivisor in_a_row;  // items
};

template <typename T, int H>
__global__ void __launch_bounds__(threads)
    interleave(JoinPlace place, const T* a, const T* b, T* joined) {
  constexpr int unroll = packs_in_flight<T, 2 * H>;
  const std::uint32_t start = blockIdx.x * (threads * unroll) + threadIdx.x;
  Pack<T, H> even[unroll];
  Pack<T, H> odd[unroll];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= place.items) continue;
    std::uint32_t row = at;
    const std::uint32_t item = place.in_a_row.split(row);
    even[u] = Pack<T, H>::load(a + row * place.channels_a + std::int64_t{item} * H);
    odd[u] = Pack<T, H>::load(b + std::int64_t{at} * H);
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= place.items) continue;
    Pack<T, 2 * H> both;
#pragma unroll
    for (int e = 0; e < H; ++e) {
      both.values[2 * e] = even[u].values[e];
      both.values[2 * e + 1] = odd[u].values[e];
    }
    both.store(joined + std::int64_t{at} * (2 * H));
  }
}

/// One input's gradient; null, and not added to, where none is wanted.
template <typename T>
struct Part {
  T* gradient;
  bool add;
};

/// Every second of 2 H elements, from the first or (`which` is 1) from the second.
template <typename T, int H>
__device__ __forceinline__ auto part_of(const Words<static_cast<int>(sizeof(T)) * 2 * H>& both,
                                        int which) {
  Words<static_cast<int>(sizeof(T)) * H> part;
#pragma unroll
  for (int i = 0; i < part.count; ++i) {
    const unsigned first = both.word[2 * i % both.count];
    const unsigned second = both.word[(2 * i + 1) % both.count];
    if constexpr (sizeof(T) == 4) {
      part.word[i] = which == 0 ? first : second;
    } else {
      part.word[i] = __byte_perm(first, second, which == 0 ? 0x5410 : 0x7632);
    }
  }
  return part;
}

/// Over the channels of `a`, those that were left out last in each row.
template <typename T, int H>
__global__ void __launch_bounds__(threads)
    part_ways(JoinPlace place, const T* joined, Part<T> a, Part<T> b) {
  constexpr int unroll = packs_in_flight<T, 2 * H>;
  constexpr int half = static_cast<int>(sizeof(T)) * H;
  const std::uint32_t start = blockIdx.x * (threads * unroll) + threadIdx.x;
  Words<2 * half> both[unroll];
  Words<half> there_a[unroll];
  Words<half> there_b[unroll];
  std::int64_t at_a[unroll];
  std::int64_t at_b[unroll];
  bool joined_too[unroll];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    std::uint32_t row = start + u * threads;
    const bool inside = row < place.items;
    const std::int64_t channel = std::int64_t{place.in_a_row.split(row)} * H;
    at_a[u] = row * place.channels_a + channel;
    at_b[u] = row * place.channels_b + channel;
    joined_too[u] = inside && channel < place.channels_b;
    both[u] = Words<2 * half>::filled(0);
    if (!joined_too[u]) continue;
    both[u] = Words<2 * half>::load(joined + 2 * at_b[u]);
    // Before anything is stored, or each load would wait for the one before.
    if (a.add) there_a[u] = Words<half>::load(a.gradient + at_a[u]);
    if (b.add) there_b[u] = Words<half>::load(b.gradient + at_b[u]);
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    if (start + u * threads >= place.items) continue;
    if (a.gradient != nullptr && (joined_too[u] || !a.add)) {
      const auto part = part_of<T, H>(both[u], 0);
      (a.add ? sum_of<T>(there_a[u], part) : part).store(a.gradient + at_a[u]);
    }
    if (b.gradient != nullptr && joined_too[u]) {
      const auto part = part_of<T, H>(both[u], 1);
      (b.add ? sum_of<T>(there_b[u], part) : part).store(b.gradient + at_b[u]);
    }
  }
}

/// Calls `use(T(), half, place, blocks)` for a kernel over rows of `row` channels of an input.
template <typename Use>
void with_join(const ShuffleJoinShape& shape, std::int64_t row, const Tensor& joined,
               const Tensor& a, const Tensor& b, const Use& use) {
  // The joined tensor's packs are twice as wide as those of its parts.
  const int pack = widest_pack({2 * shape.channels_a, 2 * shape.channels_b}, {&joined});
  const int parts = 2 * widest_pack({shape.channels_a, shape.channels_b},
                                    {a.defined() ? &a : &b, b.defined() ? &b : &a});
  with_element_type(joined.dtype(), [&](auto element) {
    using T = decltype(element);
    with_pack_width<T>(std::min(pack, parts), [&](auto width) {
      constexpr int H = (decltype(width)::value + 1) / 2;
      const JoinPlace place{.channels_a = shape.channels_a,
                            .channels_b = shape.channels_b,
                            .items = small_count(shape.rows * (row / H)),
                            .in_a_row = FastDivisor(row / H)};
      use(element, std::integral_constant<int, H>(), place,
          blocks_for(place.items, threads * packs_in_flight<T, 2 * H>));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace

void shuffle_join_forward(CudaContext& context, const ShuffleJoinShape& shape, const Tensor& a,
                          const Tensor& b, const Tensor& output) {
  if (shape.rows == 0) return;
  with_join(shape, shape.channels_b, output, a, b,
            [&](auto element, auto half, const JoinPlace& place, unsigned blocks) {
              using T = decltype(element);
              interleave<T, decltype(half)::value><<<blocks, threads, 0, context.stream()>>>(
                  place, static_cast<const T*>(a.raw()), static_cast<const T*>(b.raw()),
                  static_cast<T*>(output.raw()));
            });
}

void shuffle_join_backward(CudaContext& context, const ShuffleJoinShape& shape,
                           const ShuffleJoinBackward& args) {
  const Tensor& dy = args.output_gradient;
  const Tensor& da = args.gradients[0];
  const Tensor& db = args.gradients[1];
  if (shape.rows == 0 || (!da.defined() && !db.defined())) return;
  // What was left out of the first input is written only where it becomes zero.
  const bool all = da.defined() && !args.add[0];
  with_join(shape, all ? shape.channels_a : shape.channels_b, dy, da, db,
            [&](auto element, auto half, const JoinPlace& place, unsigned blocks) {
              using T = decltype(element);
              part_ways<T, decltype(half)::value><<<blocks, threads, 0, context.stream()>>>(
                  place, static_cast<const T*>(dy.raw()),
                  Part<T>{static_cast<T*>(da.raw()), da.defined() && args.add[0]},
                  Part<T>{static_cast<T*>(db.raw()), db.defined() && args.add[1]});
            });
}

}  // namespace tandem
