#include "base/philox.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/dropout.h"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"

namespace tandem {
namespace {

constexpr int threads = 128;

struct Draw {
  std::int64_t units;
  std::uint32_t items;      // four units of one sample each, the last of a sample maybe fewer
  FastDivisor in_a_sample;  // items
  std::uint64_t key;        // as RandomStream hands it to Philox
  std::uint64_t first_sample;
  const std::uint64_t* base;
  float rate;
  float kept;
};

/// The numbers of RandomStream(key, sample), the words of one counter in each thread.
__global__ void __launch_bounds__(threads) draw_factors(Draw draw, float* factors) {
  std::uint32_t sample = blockIdx.x * threads + threadIdx.x;
  if (sample >= draw.items) return;
  const std::uint32_t item = draw.in_a_sample.split(sample);
  const std::uint64_t base = draw.base == nullptr ? 0 : *draw.base;
  const Philox::Words words = Philox(draw.key)(item, base + draw.first_sample + sample);
  float* own = factors + sample * draw.units;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    const std::int64_t unit = std::int64_t{item} * 4 + i;
    if (unit >= draw.units) break;
    const float uniform = static_cast<float>(words[i] >> 8) * 0x1.0p-24F;
    own[unit] = uniform < draw.rate ? 0.0F : draw.kept;
  }
}

/// A pack lies within one unit, or its elements are units of their own.
template <typename T, int P, bool ByElement>
__global__ void __launch_bounds__(threads)
    scale_units(std::uint32_t packs, FastDivisor packs_in_a_unit, const float* factors, const T* x,
                T* y) {
  constexpr int unroll = packs_in_flight<T, P>;
  const std::uint32_t start = blockIdx.x * (threads * unroll) + threadIdx.x;
  Pack<T, P> values[unroll];
  float factor[unroll][ByElement ? P : 1];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= packs) continue;
    values[u] = Pack<T, P>::load(x + std::int64_t{at} * P);
    if constexpr (ByElement) {
#pragma unroll
      for (int e = 0; e < P; ++e) factor[u][e] = factors[std::int64_t{at} * P + e];
    } else {
      factor[u][0] = factors[packs_in_a_unit.quotient(at)];
    }
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= packs) continue;
#pragma unroll
    for (int e = 0; e < P; ++e) values[u].set(e, values[u].get(e) * factor[u][ByElement ? e : 0]);
    values[u].store(y + std::int64_t{at} * P);
  }
}

}  // namespace

void dropout_draw(CudaContext& context, const DropoutShape& shape, float rate, std::uint64_t key,
                  const StepRandom& random, float* factors) {
  if (shape.batch * shape.units == 0) return;
  const std::int64_t in_a_sample = (shape.units + 3) / 4;
  const Draw draw{.units = shape.units,
                  .items = small_count(shape.batch * in_a_sample),
                  .in_a_sample = FastDivisor(in_a_sample),
                  .key = mix64(key),
                  .first_sample = random.first_sample,
                  .base = random.base_on_device,
                  .rate = rate,
                  .kept = 1.0F / (1.0F - rate)};
  draw_factors<<<blocks_for(draw.items, threads), threads, 0, context.stream()>>>(draw, factors);
  TANDEM_CUDA_CHECK_LAUNCH();
}

void dropout_apply(CudaContext& context, const DropoutShape& shape, const float* factors,
                   const Tensor& input, const Tensor& output) {
  const std::int64_t count = shape.batch * shape.units * shape.unit_elements;
  if (count == 0) return;
  const bool by_element = shape.unit_elements == 1;
  const int pack = widest_pack({by_element ? count : shape.unit_elements}, {&input, &output});
  with_element_type(output.dtype(), [&](auto element) {
    using T = decltype(element);
    with_pack_width<T>(pack, [&](auto width) {
      constexpr int P = decltype(width)::value;
      const std::uint32_t packs = small_count(count / P);
      const FastDivisor packs_in_a_unit(by_element ? 1 : shape.unit_elements / P);
      const unsigned blocks = blocks_for(packs, threads * packs_in_flight<T, P>);
      const auto* x = static_cast<const T*>(input.raw());
      auto* y = static_cast<T*>(output.raw());
      if (by_element) {
        scale_units<T, P, true>
            <<<blocks, threads, 0, context.stream()>>>(packs, packs_in_a_unit, factors, x, y);
      } else {
        scale_units<T, P, false>
            <<<blocks, threads, 0, context.stream()>>>(packs, packs_in_a_unit, factors, x, y);
      }
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
