#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/channel_sums_cuda.cuh"
#include "layers/pooling/pool2d_cuda.h"
#include "tensor/pack_width.cuh"

namespace tandem {
namespace {

constexpr int threads = 128;

template <typename T, int P>
__global__ void __launch_bounds__(ChannelRuns::most_threads)
    average_pixels(std::uint32_t pixels, std::uint32_t channel_packs, FastDivisor runs, const T* x,
                   T* y) {
  constexpr int unroll = ChannelRuns::unroll;
  std::uint32_t n = blockIdx.x;
  const std::uint32_t first_pack = runs.split(n) * blockDim.x;
  const std::uint32_t pack = first_pack + threadIdx.x;
  const bool inside = pack < channel_packs;
  const std::int64_t channels = std::int64_t{channel_packs} * P;
  const T* image = x + std::int64_t{n} * pixels * channels + std::int64_t{pack} * P;
  float sums[P] = {};
  for (std::uint32_t p = threadIdx.y; inside && p < pixels; p += blockDim.y * unroll) {
    Pack<T, P> values[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::uint32_t pixel = p + u * blockDim.y;
      if (pixel < pixels) values[u] = Pack<T, P>::load(image + pixel * channels);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (p + u * blockDim.y >= pixels) continue;
#pragma unroll
      for (int e = 0; e < P; ++e) sums[e] += values[u].get(e);
    }
  }
  T* mean = y + n * channels + std::int64_t{first_pack} * P;
  const std::uint32_t own_channels = (channel_packs - first_pack) * P;
  const float share = 1.0F / static_cast<float>(pixels);
  sum_over_pixel_threads<P>(sums, [&](unsigned c, float sum) {
    if (c < own_channels) mean[c] = from_float<T>(sum * share);
  });
}

/// Each of `packs` packs of an image gets its channels' gradient over the number of pixels.
template <typename T, int P>
__global__ void __launch_bounds__(threads)
    spread_mean(std::uint32_t packs, FastDivisor channel_packs, FastDivisor image_blocks,
                float share, const T* dy, T* dx) {
  constexpr int unroll = packs_in_flight<T, P>;
  std::uint32_t n = blockIdx.x;
  const std::uint32_t start = image_blocks.split(n) * (threads * unroll) + threadIdx.x;
  const T* own = dy + std::int64_t{n} * channel_packs.divisor() * P;
  const std::int64_t first = std::int64_t{n} * packs;
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const std::uint32_t at = start + u * threads;
    if (at >= packs) continue;
    std::uint32_t pixel = at;
    auto values = Pack<T, P>::load(own + channel_packs.split(pixel) * P);
#pragma unroll
    for (int e = 0; e < P; ++e) values.set(e, values.get(e) * share);
    values.store(dx + (first + at) * P);
  }
}

class GlobalAveragePoolCuda : public LayerKernel {
 public:
  GlobalAveragePoolCuda(CudaContext& context, const PoolGeometry& geometry)
      : context_(&context),
        images_(geometry.input[0]),
        pixels_(geometry.input[1] * geometry.input[2]),
        channels_(geometry.input[3]) {}

  void forward(const ForwardArgs& args) override {
    const Tensor& x = args.inputs[0];
    const Tensor& y = args.output;
    with_packs(x, y, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const std::int64_t packs = channels_ / P;
      const ChannelRuns runs =
          plan_channel_runs(images_, pixels_, packs, context_->device().multiprocessors);
      average_pixels<T, P><<<runs.blocks(), runs.block(), 0, context_->stream()>>>(
          small_count(pixels_), small_count(packs), FastDivisor(runs.runs),
          static_cast<const T*>(x.raw()), static_cast<T*>(y.raw()));
    });
  }

  void backward(const BackwardArgs& args) override {
    const Tensor& dy = args.output_gradient;
    const Tensor& dx = args.input_gradients[0];
    if (!dx.defined()) return;
    with_packs(dy, dx, [&](auto element, auto width) {
      using T = decltype(element);
      constexpr int P = decltype(width)::value;
      const std::uint32_t packs = small_count(pixels_ * (channels_ / P));
      const unsigned image_blocks = blocks_for(packs, threads * packs_in_flight<T, P>);
      spread_mean<T, P><<<small_count(images_ * image_blocks), threads, 0, context_->stream()>>>(
          packs, FastDivisor(channels_ / P), FastDivisor(image_blocks),
          1.0F / static_cast<float>(pixels_), static_cast<const T*>(dy.raw()),
          static_cast<T*>(dx.raw()));
    });
  }

 private:
  /// Calls `use(T(), width)`.
  template <typename Use>
  void with_packs(const Tensor& from, const Tensor& to, const Use& use) const {
    const int pack = widest_pack({channels_}, {&from, &to});
    with_element_type(from.dtype(), [&](auto element) {
      with_pack_width<decltype(element)>(pack, [&](auto width) { use(element, width); });
    });
    TANDEM_CUDA_CHECK_LAUNCH();
  }

  CudaContext* context_;
  std::int64_t images_;
  std::int64_t pixels_;
  std::int64_t channels_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_global_average_pool_kernel(CudaContext& context,
                                                             const PoolGeometry& geometry) {
  return std::make_unique<GlobalAveragePoolCuda>(context, geometry);
}

}  // namespace tandem
