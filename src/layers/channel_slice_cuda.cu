#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/channel_slice.h"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"
#include "tensor/packed_words.cuh"

namespace tandem {
namespace {

constexpr int threads = 128;

/// A slice's place in the wide tensor, and its packs there.
struct SlicePlace {
  std::int64_t channels;
  std::int64_t first;
  std::uint32_t packs;   // of the tensor that the kernel goes over
  FastDivisor in_a_row;  // packs
};

enum class Move : std::uint8_t {
  from_wide,  // narrow = part of wide
  add_to_wide
};

/// Over the packs of the narrow tensor.
template <typename T, int P, Move Way>
__global__ void __launch_bounds__(threads) move_slice(SlicePlace place, const T* from, T* to) {
  using Packed = Words<static_cast<int>(sizeof(T)) * P>;
  constexpr int unroll = packs_in_flight<T, P>;
  const std::uint32_t start = blockIdx.x * (threads * unroll) + threadIdx.x;
  Packed moved[unroll];
  Packed there[Way == Move::add_to_wide ? unroll : 1];
  std::int64_t wide[unroll];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= place.packs) continue;
    std::uint32_t row = at;
    const std::uint32_t column = place.in_a_row.split(row);
    wide[u] = row * place.channels + place.first + std::int64_t{column} * P;
    moved[u] = Packed::load(from + (Way == Move::from_wide ? wide[u] : std::int64_t{at} * P));
    // Before anything is stored, or each load would wait for the one before.
    if constexpr (Way == Move::add_to_wide) there[u] = Packed::load(to + wide[u]);
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= place.packs) continue;
    if constexpr (Way == Move::from_wide) {
      moved[u].store(to + std::int64_t{at} * P);
    } else {
      sum_of<T>(there[u], moved[u]).store(to + wide[u]);
    }
  }
}

/// Over the packs of the wide tensor: the slice where it lies, zero elsewhere.
template <typename T, int P>
__global__ void __launch_bounds__(threads)
    spread_slice(SlicePlace place, std::int64_t count, const T* slice, T* wide) {
  using Packed = Words<static_cast<int>(sizeof(T)) * P>;
  constexpr int unroll = packs_in_flight<T, P>;
  const std::uint32_t start = blockIdx.x * (threads * unroll) + threadIdx.x;
  Packed moved[unroll];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    std::uint32_t row = at;
    const std::uint32_t pack_column = place.in_a_row.split(row);
    const std::int64_t column = std::int64_t{pack_column} * P - place.first;
    moved[u] = Packed::filled(0);
    if (at < place.packs && column >= 0 && column < count) {
      moved[u] = Packed::load(slice + row * count + column);
    }
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at < place.packs) moved[u].store(wide + std::int64_t{at} * P);
  }
}

/// Calls `use(T(), width, place, blocks)` for a kernel over the packs of `rows` rows of `row`
/// channels; T is an element, width the integral constant of the pack.
template <typename Use>
void with_slice(const ChannelRange& range, std::int64_t row, const Tensor& a, const Tensor& b,
                const Use& use) {
  const int pack = widest_pack({range.channels, range.first, range.count}, {&a, &b});
  with_element_type(a.dtype(), [&](auto element) {
    using T = decltype(element);
    with_pack_width<T>(pack, [&](auto width) {
      constexpr int P = decltype(width)::value;
      const SlicePlace place{.channels = range.channels,
                             .first = range.first,
                             .packs = small_count(range.rows * (row / P)),
                             .in_a_row = FastDivisor(row / P)};
      use(element, width, place, blocks_for(place.packs, threads * packs_in_flight<T, P>));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace

void channel_slice_forward(CudaContext& context, const ChannelRange& range, const Tensor& input,
                           const Tensor& output) {
  if (range.rows == 0) return;
  with_slice(range, range.count, input, output,
             [&](auto element, auto width, const SlicePlace& place, unsigned blocks) {
               using T = decltype(element);
               move_slice<T, decltype(width)::value, Move::from_wide>
                   <<<blocks, threads, 0, context.stream()>>>(
                       place, static_cast<const T*>(input.raw()), static_cast<T*>(output.raw()));
             });
}

void channel_slice_backward(CudaContext& context, const ChannelRange& range, bool add,
                            const Tensor& output_gradient, const Tensor& input_gradient) {
  if (range.rows == 0) return;
  with_slice(range, add ? range.count : range.channels, output_gradient, input_gradient,
             [&](auto element, auto width, const SlicePlace& place, unsigned blocks) {
               using T = decltype(element);
               constexpr int P = decltype(width)::value;
               const auto* dy = static_cast<const T*>(output_gradient.raw());
               auto* dx = static_cast<T*>(input_gradient.raw());
               if (add) {
                 move_slice<T, P, Move::add_to_wide>
                     <<<blocks, threads, 0, context.stream()>>>(place, dy, dx);
               } else {
                 spread_slice<T, P>
                     <<<blocks, threads, 0, context.stream()>>>(place, range.count, dy, dx);
               }
             });
}

}  // namespace tandem
