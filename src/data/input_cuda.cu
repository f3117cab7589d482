#include <limits>

#include "data/input_cuda.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int warp = 32;
constexpr int warps = 8;
/// Pixels of each lane. A warp's lanes read neighbouring pixels, and all loads of a lane are under
/// way before the first is used.
constexpr int steps = 4;
constexpr int chunk = warp * steps;

struct InputPlan {
  const std::uint8_t* pixels;
  const SampleEdit* edits;
  const MixEdit* mix;
  int batch;
  int height;  ///< of the raw pixels
  int width;
  int size;
  int chunks;  ///< of a sample
  Normalization normalization;
};

__device__ __forceinline__ bool inside(const PixelRect& box, int y, int x) {
  return static_cast<unsigned>(y - box.top) < static_cast<unsigned>(box.height) &&
         static_cast<unsigned>(x - box.left) < static_cast<unsigned>(box.width);
}

/// One sample's pixels, with what is to be done with them.
struct Picture {
  const std::uint8_t* pixels;
  SampleEdit edit;
};

template <int channels>
__device__ __forceinline__ Picture picture_at(const InputPlan& plan, int sample) {
  const std::int64_t bytes = std::int64_t{plan.height} * plan.width * channels;
  return {plan.pixels + sample * bytes, plan.edits[sample]};
}

/// The bytes of output pixel (y, x); black outside of the picture and where it is not `wanted`.
template <int channels>
__device__ __forceinline__ void fetch(const InputPlan& plan, const Picture& picture, int y, int x,
                                      bool wanted, std::uint8_t* bytes) {
  const int row = picture.edit.top + y;
  const int column = picture.edit.left + (picture.edit.mirrored != 0 ? plan.size - 1 - x : x);
  const bool seen = wanted && static_cast<unsigned>(row) < static_cast<unsigned>(plan.height) &&
                    static_cast<unsigned>(column) < static_cast<unsigned>(plan.width);
  const int at = (row * plan.width + column) * channels;
#pragma unroll
  for (int c = 0; c < channels; ++c) bytes[c] = seen ? __ldg(picture.pixels + at + c) : 0;
}

__device__ __forceinline__ float normalized(const InputPlan& plan, const Picture& picture, int y,
                                            int x, int c, std::uint8_t byte) {
  if (inside(picture.edit.erased, y, x)) return 0.0F;
  return fmaf(static_cast<float>(byte), plan.normalization.scale[c], plan.normalization.offset[c]);
}

/// The finished values of a lane's pixels: `first` and every 32nd after it, those below `end`.
/// Tells put(pixel's number in the chunk, channel, value).
template <int channels, bool mixed, typename Put>
__device__ __forceinline__ void finish_pixels(const InputPlan& plan, int sample, int first, int end,
                                              Put&& put) {
  const Picture own = picture_at<channels>(plan, sample);
  Picture partner{};
  MixEdit mix{};
  if constexpr (mixed) {
    partner = picture_at<channels>(plan, sample > 0 ? sample - 1 : plan.batch);
    mix = *plan.mix;
  }
  const bool blended = mixed && mix.boxed == 0;

  int ys[steps];
  int xs[steps];
  bool shown[steps];  // whether the partner is, through the box
  std::uint8_t bytes[steps][channels];
  std::uint8_t partners_bytes[steps][channels];
  int y = first / plan.size;
  int x = first - y * plan.size;
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    const bool there = first + k * warp < end;
    ys[k] = y;
    xs[k] = x;
    shown[k] = mixed && !blended && inside(mix.box, y, x);
    fetch<channels>(plan, own, y, x, there && !shown[k], bytes[k]);
    if constexpr (mixed)
      fetch<channels>(plan, partner, y, x, there && (blended || shown[k]), partners_bytes[k]);
    x += warp;
    while (x >= plan.size) {
      x -= plan.size;
      ++y;
    }
  }
#pragma unroll
  for (int k = 0; k < steps; ++k) {
    if (first + k * warp >= end) continue;
#pragma unroll
    for (int c = 0; c < channels; ++c) {
      float value = normalized(plan, own, ys[k], xs[k], c, bytes[k][c]);
      if constexpr (mixed) {
        const float other = normalized(plan, partner, ys[k], xs[k], c, partners_bytes[k][c]);
        // Not fused, as on the host.
        if (blended) {
          value = __fadd_rn(__fmul_rn(mix.own, value), __fmul_rn(mix.partners, other));
        } else if (shown[k]) {
          value = other;
        }
      }
      put(k, c, value);
    }
  }
}

/// Writes `count` staged elements to `out` + `begin`. They are staged from begin % width on, so
/// that packs are aligned on both sides.
template <typename T>
__device__ __forceinline__ void store_staged(const T* staged, std::int64_t begin, int count,
                                             T* out) {
  constexpr int width = full_pack<T>;
  const int skipped = static_cast<int>(begin % width);
  T* const to = out + (begin - skipped);
  const int lane = static_cast<int>(threadIdx.x) % warp;
  for (int at = lane * width; at < skipped + count; at += warp * width) {
    if (at >= skipped && at + width <= skipped + count) {
      *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(staged + at);
      continue;
    }
    for (int i = at; i < at + width; ++i) {
      if (i >= skipped && i < skipped + count) to[i] = staged[i];
    }
  }
}

/// A warp makes `chunk` neighbouring pixels of one sample. Values pass through shared memory, so
/// that three channels leave in full packs too.
template <typename T, int channels, bool mixed>
__global__ void __launch_bounds__(warp* warps) make_input(InputPlan plan, T* images) {
  constexpr int width = full_pack<T>;
  __shared__ alignas(16) T stage[warps][chunk * channels + width];
  const int here = static_cast<int>(threadIdx.x) / warp;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int number = static_cast<int>(blockIdx.x) * warps + here;
  const int sample = number / plan.chunks;
  if (sample >= plan.batch) return;  // whole warps only
  const int pixels = plan.size * plan.size;
  const int first = (number - sample * plan.chunks) * chunk;
  const int end = min(first + chunk, pixels);
  const std::int64_t begin = (std::int64_t{sample} * pixels + first) * channels;
  T* const staged = stage[here] + begin % width;
  finish_pixels<channels, mixed>(plan, sample, first + lane, end, [&](int k, int c, float value) {
    staged[(k * warp + lane) * channels + c] = from_float<T>(value);
  });
  __syncwarp();
  store_staged(stage[here], begin, (end - first) * channels, images);
}

template <typename T, int channels>
void launch(CudaContext& context, const InputPlan& plan, T* images) {
  const unsigned blocks = blocks_for(std::int64_t{plan.batch} * plan.chunks, warps);
  if (plan.mix != nullptr) {
    make_input<T, channels, true><<<blocks, warp * warps, 0, context.stream()>>>(plan, images);
  } else {
    make_input<T, channels, false><<<blocks, warp * warps, 0, context.stream()>>>(plan, images);
  }
  TANDEM_CUDA_CHECK_LAUNCH();
}

/// Checks what the kernel relies on: extents that fit, and 32-bit indices within a sample.
void check(const RawBatchView& batch, const InputSpec& spec, const Tensor& images) {
  const Shape& raw = batch.pixels.shape();
  const std::int64_t count = images.shape()[0];
  TANDEM_CHECK(count >= 1 &&
                   images.shape() == Shape({count, spec.size, spec.size, spec.channels}) &&
                   raw.rank() == 4 && raw[0] == count + (batch.mix != nullptr ? 1 : 0) &&
                   raw[3] == spec.channels && (spec.channels == 1 || spec.channels == 3),
               "raw images {} for an input of {}", raw.text(), images.shape().text());
  constexpr std::int64_t most = std::numeric_limits<int>::max() - chunk * warps;
  TANDEM_CHECK(raw[1] * raw[2] * raw[3] <= most && images.elements() / count <= most &&
                   images.elements() / chunk + count <= most,
               "raw images {} for an input of {}: too large", raw.text(), images.shape().text());
}

}  // namespace

void enqueue_input(CudaContext& context, const RawBatchView& batch, const InputSpec& spec,
                   const Tensor& images) {
  check(batch, spec, images);
  const Shape& raw = batch.pixels.shape();
  const int pixels = spec.size * spec.size;
  const InputPlan plan{.pixels = batch.pixels.data<std::uint8_t>(),
                       .edits = batch.edits,
                       .mix = batch.mix,
                       .batch = static_cast<int>(images.shape()[0]),
                       .height = static_cast<int>(raw[1]),
                       .width = static_cast<int>(raw[2]),
                       .size = spec.size,
                       .chunks = (pixels + chunk - 1) / chunk,
                       .normalization = spec.normalization};
  with_element_type(images.dtype(), [&](auto element) {
    using T = decltype(element);
    auto* out = static_cast<T*>(images.raw());
    if (spec.channels == 3) {
      launch<T, 3>(context, plan, out);
    } else {
      launch<T, 1>(context, plan, out);
    }
  });
}

}  // namespace tandem
