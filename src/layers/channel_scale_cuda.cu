#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/channel_scale.h"
#include "layers/channel_sums_cuda.cuh"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"

namespace tandem {
namespace {

constexpr int threads = 128;

/// Packs of one image and of its blocks.
struct ImagePacks {
  std::uint32_t packs;
  FastDivisor channel_packs;
  FastDivisor blocks;
};

template <typename T, int P>
__global__ void __launch_bounds__(threads)
    scale_channels(ImagePacks image, const T* x, const T* scale, T* y) {
  constexpr int unroll = packs_in_flight<T, P>;
  std::uint32_t n = blockIdx.x;
  const std::uint32_t start = image.blocks.split(n) * (threads * unroll) + threadIdx.x;
  const std::int64_t first = std::int64_t{n} * image.packs;
  const T* own_scale = scale + std::int64_t{n} * image.channel_packs.divisor() * P;
  Pack<T, P> values[unroll];
  Pack<T, P> factors[unroll];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= image.packs) continue;
    values[u] = Pack<T, P>::load(x + (first + at) * P);
    std::uint32_t pixel = at;
    factors[u] = Pack<T, P>::load(own_scale + image.channel_packs.split(pixel) * P);
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= image.packs) continue;
#pragma unroll
    for (int e = 0; e < P; ++e) values[u].set(e, values[u].get(e) * factors[u].get(e));
    values[u].store(y + (first + at) * P);
  }
}

template <typename T>
struct Pointers {
  const T* input;
  const T* scale;
  const T* output_gradient;
  T* input_gradient;  // null where it is not wanted
  T* scale_gradient;  // likewise
  bool add_to_input;
  bool add_to_scale;
};

/// dx = dy * scale.
template <typename T, int P>
__device__ __forceinline__ void write_input_gradient(const Pack<T, P>& dy, const Pack<T, P>& scale,
                                                     bool add, T* to) {
  Pack<T, P> dx;
  if (add) dx = Pack<T, P>::load(to);
#pragma unroll
  for (int e = 0; e < P; ++e) {
    const float own = dy.get(e) * scale.get(e);
    dx.set(e, add ? dx.get(e) + own : own);
  }
  dx.store(to);
}

template <typename T, int P>
__global__ void __launch_bounds__(ChannelRuns::most_threads)
    scale_backward(std::uint32_t pixels, std::uint32_t channel_packs, FastDivisor runs,
                   Pointers<T> at) {
  constexpr int unroll = ChannelRuns::unroll;
  std::uint32_t n = blockIdx.x;
  const std::uint32_t first_pack = runs.split(n) * blockDim.x;
  const std::uint32_t pack = first_pack + threadIdx.x;
  const bool inside = pack < channel_packs;
  const std::int64_t channels = std::int64_t{channel_packs} * P;
  const std::int64_t image = std::int64_t{n} * pixels;
  float sums[P] = {};
  Pack<T, P> scale;
  if (inside) scale = Pack<T, P>::load(at.scale + n * channels + std::int64_t{pack} * P);
  for (std::uint32_t p = threadIdx.y; inside && p < pixels; p += blockDim.y * unroll) {
    Pack<T, P> x[unroll];
    Pack<T, P> dy[unroll];
    std::int64_t place[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::uint32_t pixel = p + u * blockDim.y;
      if (pixel >= pixels) continue;
      place[u] = (image + pixel) * channels + std::int64_t{pack} * P;
      x[u] = Pack<T, P>::load(at.input + place[u]);
      dy[u] = Pack<T, P>::load(at.output_gradient + place[u]);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (p + u * blockDim.y >= pixels) continue;
#pragma unroll
      for (int e = 0; e < P; ++e) sums[e] += dy[u].get(e) * x[u].get(e);
      if (at.input_gradient == nullptr) continue;
      write_input_gradient(dy[u], scale, at.add_to_input, at.input_gradient + place[u]);
    }
  }
  if (at.scale_gradient == nullptr) return;
  T* ds = at.scale_gradient + n * channels + std::int64_t{first_pack} * P;
  const std::uint32_t own_channels = (channel_packs - first_pack) * P;
  sum_over_pixel_threads<P>(sums, [&](unsigned c, float sum) {
    if (c >= own_channels) return;
    ds[c] = from_float<T>((at.add_to_scale ? to_float(ds[c]) : 0.0F) + sum);
  });
}

}  // namespace

void channel_scale_forward(CudaContext& context, const ChannelScaleShape& shape,
                           const Tensor& input, const Tensor& scale, const Tensor& output) {
  if (output.elements() == 0) return;
  const int pack = widest_pack({shape.channels}, {&input, &scale, &output});
  with_element_type(output.dtype(), [&](auto element) {
    using T = decltype(element);
    with_pack_width<T>(pack, [&](auto width) {
      constexpr int P = decltype(width)::value;
      const std::uint32_t packs = small_count(shape.pixels * (shape.channels / P));
      const unsigned image_blocks = blocks_for(packs, threads * packs_in_flight<T, P>);
      const unsigned blocks = small_count(shape.batch * image_blocks);
      const ImagePacks image{.packs = packs,
                             .channel_packs = FastDivisor(shape.channels / P),
                             .blocks = FastDivisor(image_blocks)};
      scale_channels<T, P><<<blocks, threads, 0, context.stream()>>>(
          image, static_cast<const T*>(input.raw()), static_cast<const T*>(scale.raw()),
          static_cast<T*>(output.raw()));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

void channel_scale_backward(CudaContext& context, const ChannelScaleShape& shape,
                            const ChannelScaleBackward& args) {
  if (args.output_gradient.elements() == 0) return;
  if (!args.input_gradient.defined() && !args.scale_gradient.defined()) return;
  const int pack = widest_pack({shape.channels}, {&args.input, &args.scale, &args.output_gradient,
                                                  &args.input_gradient, &args.scale_gradient});
  with_element_type(args.output_gradient.dtype(), [&](auto element) {
    using T = decltype(element);
    with_pack_width<T>(pack, [&](auto width) {
      constexpr int P = decltype(width)::value;
      const std::int64_t channel_packs = shape.channels / P;
      const ChannelRuns runs = plan_channel_runs(shape.batch, shape.pixels, channel_packs,
                                                 context.device().multiprocessors);
      const Pointers<T> at{.input = static_cast<const T*>(args.input.raw()),
                           .scale = static_cast<const T*>(args.scale.raw()),
                           .output_gradient = static_cast<const T*>(args.output_gradient.raw()),
                           .input_gradient = static_cast<T*>(args.input_gradient.raw()),
                           .scale_gradient = static_cast<T*>(args.scale_gradient.raw()),
                           .add_to_input = args.add_to_input,
                           .add_to_scale = args.add_to_scale};
      scale_backward<T, P><<<runs.blocks(), runs.block(), 0, context.stream()>>>(
          small_count(shape.pixels), small_count(channel_packs), FastDivisor(runs.runs), at);
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
