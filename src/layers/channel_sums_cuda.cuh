#pragma once

// Sums over the pixels of images, for each image and channel, by one block per image and run of
// channels: no scratch, and the same order in every run.

#include <algorithm>
#include <cstdint>

#include "tensor/cuda_elements.cuh"
#include "tensor/fast_divisor.h"

namespace tandem {

/// Threads of a block: x over packs of channels, y over pixels. One block has `lanes` packs of one
/// image; blocks are numbered image after image.
struct ChannelRuns {
  static constexpr int most_threads = 512;
  static constexpr int unroll = 4;  ///< pixels that a thread loads at once

  unsigned images = 0;
  unsigned lanes = 1;
  unsigned pixel_threads = 1;
  unsigned runs = 1;  ///< of channels, in each image

  dim3 block() const { return {lanes, pixel_threads}; }
  unsigned blocks() const { return images * runs; }
};

/// For images of `pixels` rows of `packs`. Narrow runs where there are few images, so that all
/// multiprocessors work, but at least 64 bytes of each pixel.
inline ChannelRuns plan_channel_runs(std::int64_t images, std::int64_t pixels, std::int64_t packs,
                                     int multiprocessors) {
  constexpr std::int64_t fewest = 4;
  constexpr std::int64_t most = 32;
  std::int64_t lanes = std::min(packs, most);
  const auto runs = [&] { return (packs + lanes - 1) / lanes; };
  while (images * runs() < 4 * multiprocessors && lanes > fewest) {
    lanes = std::max(fewest, (lanes + 1) / 2);
  }
  lanes = (packs + runs() - 1) / runs();  // as even as they get
  // A block of all threads has a multiprocessor for itself.
  const std::int64_t threads = images * runs() < 2 * multiprocessors
                                   ? ChannelRuns::most_threads
                                   : ChannelRuns::most_threads / 2;
  const std::int64_t useful = (pixels + ChannelRuns::unroll - 1) / ChannelRuns::unroll;
  ChannelRuns plan;
  plan.images = static_cast<unsigned>(images);
  plan.lanes = static_cast<unsigned>(lanes);
  plan.runs = static_cast<unsigned>(runs());
  plan.pixel_threads = static_cast<unsigned>(std::clamp(useful, std::int64_t{1}, threads / lanes));
  return plan;
}

/// The block's sums over its pixel threads, as threads hold them for P channels each:
/// `use(channel, sum)` by one thread for each channel, counted from the run's first.
template <int P, typename Use>
__device__ __forceinline__ void sum_over_pixel_threads(const float (&sums)[P], const Use& use) {
  __shared__ float parts[ChannelRuns::most_threads * P];
  const unsigned channels = blockDim.x * P;
  float* own = parts + threadIdx.y * channels + threadIdx.x * P;
#pragma unroll
  for (int e = 0; e < P; ++e) own[e] = sums[e];
  __syncthreads();
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned c = thread; c < channels; c += blockDim.x * blockDim.y) {
    float sum = 0.0F;
#pragma unroll 8
    for (unsigned row = 0; row < blockDim.y; ++row) sum += parts[row * channels + c];
    use(c, sum);
  }
}

}  // namespace tandem
