#include <limits>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/convolution_rewrite.h"
#include "layers/plans/pixel_fold.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;
/// Of x: with more, the libraries do well enough by themselves.
constexpr std::int64_t most_channels = 4;
/// Overlapping blocks hold each pixel several times.
constexpr std::int64_t most_overlapping_bytes = std::int64_t{256} << 20U;

/// Packs of the folded x by place.
struct FoldedPacks {
  FastDivisor packs, columns, rows;
};

/// One thread for a pack of the folded x. Neighbouring threads read neighbouring elements, so that
/// single reads still fill their cache lines.
template <typename T>
__global__ void __launch_bounds__(threads)
    fold_pixels(PixelFold fold, FoldedPacks index, std::uint32_t count, const T* __restrict__ x,
                T* __restrict__ folded) {
  constexpr int width = full_pack<T>;
  const std::uint32_t item = blockIdx.x * threads + threadIdx.x;
  if (item >= count) return;
  std::uint32_t image = item;
  const auto channel = static_cast<std::int32_t>(index.packs.split(image)) * width;
  const auto column = static_cast<std::int32_t>(index.columns.split(image));
  const auto row = static_cast<std::int32_t>(index.rows.split(image));
  const std::uint32_t from = image * static_cast<std::uint32_t>(fold.rows * fold.width);
  Pack<T, width> out;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const PixelFold::Source source = fold.pixel_source(row, column, channel + i);
    out.values[i] =
        source.exists ? x[from + static_cast<std::uint32_t>(source.element)] : from_float<T>(0.0F);
  }
  out.store(folded + std::int64_t{item} * width);
}

/// One thread for an element of the folded weight.
template <typename T>
__global__ void __launch_bounds__(threads)
    fold_weight(PixelFold fold, std::uint32_t count, const T* __restrict__ weight,
                T* __restrict__ folded) {
  const std::uint32_t item = blockIdx.x * threads + threadIdx.x;
  if (item >= count) return;
  const std::uint32_t channel = item % fold.folded_channels;
  const std::uint32_t tap = item / fold.folded_channels;
  const std::uint32_t column = tap % fold.folded_kernel;
  const std::uint32_t row = tap / fold.folded_kernel % fold.folded_kernel;
  const std::uint32_t filter = tap / fold.folded_kernel / fold.folded_kernel;
  const PixelFold::Source source =
      fold.tap_source(static_cast<int>(row), static_cast<int>(column), static_cast<int>(channel));
  const T* from = weight + std::int64_t{filter} * fold.kernel * fold.kernel * fold.channels;
  folded[item] = source.exists ? from[source.element] : from_float<T>(0.0F);
}

/// One thread for an element of the weight's gradient.
__global__ void __launch_bounds__(threads)
    unfold_weight(PixelFold fold, std::uint32_t count, const float* __restrict__ folded,
                  float* __restrict__ weight) {
  const std::uint32_t item = blockIdx.x * threads + threadIdx.x;
  if (item >= count) return;
  const std::uint32_t channel = item % fold.channels;
  const std::uint32_t tap = item / fold.channels;
  const std::uint32_t column = tap % fold.kernel;
  const std::uint32_t row = tap / fold.kernel % fold.kernel;
  const std::uint32_t filter = tap / fold.kernel / fold.kernel;
  const std::int32_t place =
      fold.folded_tap(static_cast<int>(row), static_cast<int>(column), static_cast<int>(channel));
  const std::int64_t folded_filter =
      std::int64_t{fold.folded_kernel} * fold.folded_kernel * fold.folded_channels;
  weight[item] = folded[filter * folded_filter + place];
}

ConvolutionProblem folded_problem(const ConvolutionProblem& problem, const PixelFold& fold) {
  ConvolutionProblem folded = problem;
  folded.window = {.kernel = fold.folded_kernel};
  folded.rows = fold.folded_rows;
  folded.columns = fold.folded_columns;
  folded.channels = fold.folded_channels;
  return folded;
}

class PixelFoldRewrite final : public ConvolutionRewrite {
 public:
  PixelFoldRewrite(const ConvolutionProblem& problem, const PixelFold& fold)
      : ConvolutionRewrite(folded_problem(problem, fold)), fold_(fold) {}

  std::string name() const override {
    return fold_.block == fold_.kernel ? "im2col" : "space-to-depth";
  }
  bool copies_input() const override { return true; }

  void copy_input(CudaContext& context, const void* x, void* copy) const override {
    with_element_type(problem().dtype(), [&](auto element) {
      using T = decltype(element);
      const std::int64_t packs = fold_.folded_channels / full_pack<T>;
      const std::int64_t count = problem().pixels() * packs;
      const FoldedPacks index{.packs = FastDivisor(packs),
                              .columns = FastDivisor(fold_.folded_columns),
                              .rows = FastDivisor(fold_.folded_rows)};
      fold_pixels<T><<<blocks_for(count, threads), threads, 0, context.stream()>>>(
          fold_, index, static_cast<std::uint32_t>(count), static_cast<const T*>(x),
          static_cast<T*>(copy));
    });
    TANDEM_CUDA_CHECK_LAUNCH();
  }

  void copy_weight(CudaContext& context, const void* weight, void* copy) const override {
    const std::int64_t count = problem().taps() * problem().channels;
    with_element_type(problem().dtype(), [&](auto element) {
      using T = decltype(element);
      fold_weight<T><<<blocks_for(count, threads), threads, 0, context.stream()>>>(
          fold_, static_cast<std::uint32_t>(count), static_cast<const T*>(weight),
          static_cast<T*>(copy));
    });
    TANDEM_CUDA_CHECK_LAUNCH();
  }

  void restore_weight_gradient(CudaContext& context, const void* copy,
                               void* gradient) const override {
    const std::int64_t count =
        problem().out_channels * fold_.kernel * fold_.kernel * fold_.channels;
    unfold_weight<<<blocks_for(count, threads), threads, 0, context.stream()>>>(
        fold_, static_cast<std::uint32_t>(count), static_cast<const float*>(copy),
        static_cast<float*>(gradient));
    TANDEM_CUDA_CHECK_LAUNCH();
  }

 private:
  PixelFold fold_;
};

}  // namespace

ConvolutionRewritePtr pixel_fold_rewrite(const ConvolutionProblem& problem, std::int64_t block) {
  const Window& window = problem.window;
  const bool suits = problem.operation != ConvolutionOperation::data_gradient &&
                     problem.channels <= most_channels && problem.groups == 1 &&
                     window.dilation == 1;
  if (!suits) return nullptr;
  const std::int64_t word = problem.dtype() == DType::f32 ? 4 : 8;
  const PixelFold fold = PixelFold::of(problem, block, word);
  const ConvolutionProblem folded = folded_problem(problem, fold);
  // The kernels count in 32 bits.
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t elements = folded.pixels() * folded.channels;
  if (elements > most || folded.taps() * folded.channels > most ||
      problem.pixels() * problem.channels > most) {
    return nullptr;
  }
  const auto bytes = elements * static_cast<std::int64_t>(size_of(problem.dtype()));
  if (block > window.stride && bytes > most_overlapping_bytes) return nullptr;
  return std::make_shared<PixelFoldRewrite>(problem, fold);
}

}  // namespace tandem
