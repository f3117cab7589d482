#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/convolution_rewrite.h"
#include "layers/plans/toeplitz_filter.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;
/// Beyond these the zeros cost more than the border that they spare.
constexpr std::int64_t most_blocks = 64;
constexpr std::int64_t most_elements = std::int64_t{1} << 25U;
/// Channels come in whole packs of every element type.
constexpr std::int64_t word = 8;

/// One thread for a pack of the matrix: rows (out pixel, out channel), columns (pixel, channel).
template <typename T>
__global__ void __launch_bounds__(threads)
    write_out(ToeplitzFilter filter, std::uint32_t count, const T* __restrict__ weight,
              T* __restrict__ matrix) {
  using P = Pack<T, full_pack<T>>;
  const std::uint32_t item = blockIdx.x * threads + threadIdx.x;
  if (item >= count) return;
  const std::uint32_t packs = filter.channels / full_pack<T>;
  const std::uint32_t pack = item % packs;
  const std::uint32_t block_row = item / packs;
  const std::uint32_t pixel = block_row % filter.pixels();
  const std::uint32_t row = block_row / filter.pixels();
  const std::uint32_t out_channel = row % filter.out_channels;
  const std::uint32_t out_pixel = row / filter.out_channels;
  const std::int32_t tap = filter.tap(static_cast<int>(out_pixel), static_cast<int>(pixel));
  P out;
  if (tap >= 0) {
    const std::int64_t from = std::int64_t{out_channel} * filter.kernel * filter.kernel + tap;
    out = P::load(weight + from * filter.channels + pack * full_pack<T>);
  } else {
#pragma unroll
    for (int i = 0; i < full_pack<T>; ++i) out.values[i] = from_float<T>(0.0F);
  }
  out.store(matrix + std::int64_t{item} * full_pack<T>);
}

/// One thread for a pack of the weight's gradient: the sum over the out pixels, in their order, of
/// what stands in the matrix for its tap.
__global__ void __launch_bounds__(threads)
    gather_gradient(ToeplitzFilter filter, std::uint32_t count, const float* __restrict__ matrix,
                    float* __restrict__ gradient) {
  using P = Pack<float, 4>;
  const std::uint32_t item = blockIdx.x * threads + threadIdx.x;
  if (item >= count) return;
  const std::uint32_t packs = filter.channels / 4;
  const std::uint32_t pack = item % packs;
  const std::uint32_t taps = filter.kernel * filter.kernel;
  const std::uint32_t tap = item / packs % taps;
  const std::uint32_t out_channel = item / packs / taps;
  P sum{};
  for (std::int32_t out_pixel = 0; out_pixel < filter.out_pixels(); ++out_pixel) {
    const std::int32_t pixel = filter.pixel(out_pixel, static_cast<int>(tap));
    if (pixel < 0) continue;
    const std::int64_t row = std::int64_t{out_pixel} * filter.out_channels + out_channel;
    const std::int64_t from = (row * filter.pixels() + pixel) * filter.channels;
    const P term = P::load(matrix + from + pack * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.values[i] += term.values[i];
  }
  sum.store(gradient + std::int64_t{item} * 4);
}

ConvolutionProblem matrix_problem(const ConvolutionProblem& problem) {
  ConvolutionProblem matrix = problem;
  matrix.window = {};
  matrix.rows = matrix.columns = matrix.out_rows = matrix.out_columns = 1;
  matrix.channels = problem.rows * problem.columns * problem.channels;
  matrix.out_channels = problem.out_rows * problem.out_columns * problem.out_channels;
  return matrix;
}

class ToeplitzRewrite final : public ConvolutionRewrite {
 public:
  explicit ToeplitzRewrite(const ConvolutionProblem& problem)
      : ConvolutionRewrite(matrix_problem(problem)), filter_(ToeplitzFilter::of(problem)) {}

  std::string name() const override { return "toeplitz"; }
  bool copies_input() const override { return false; }
  void copy_input(CudaContext&, const void*, void*) const override {
    throw Error("a Toeplitz matrix is of the filter, not of the images");
  }

  void copy_weight(CudaContext& context, const void* weight, void* copy) const override {
    with_element_type(problem().dtype(), [&](auto element) {
      using T = decltype(element);
      const std::int64_t count = problem().taps() * problem().channels / full_pack<T>;
      write_out<T><<<blocks_for(count, threads), threads, 0, context.stream()>>>(
          filter_, static_cast<std::uint32_t>(count), static_cast<const T*>(weight),
          static_cast<T*>(copy));
    });
    TANDEM_CUDA_CHECK_LAUNCH();
  }

  void restore_weight_gradient(CudaContext& context, const void* copy,
                               void* gradient) const override {
    const std::int64_t taps = std::int64_t{filter_.out_channels} * filter_.kernel * filter_.kernel;
    const std::int64_t count = taps * filter_.channels / 4;
    gather_gradient<<<blocks_for(count, threads), threads, 0, context.stream()>>>(
        filter_, static_cast<std::uint32_t>(count), static_cast<const float*>(copy),
        static_cast<float*>(gradient));
    TANDEM_CUDA_CHECK_LAUNCH();
  }

 private:
  ToeplitzFilter filter_;
};

}  // namespace

ConvolutionRewritePtr toeplitz_rewrite(const ConvolutionProblem& problem) {
  const Window& window = problem.window;
  const std::int64_t image = problem.rows * problem.columns;
  const std::int64_t out_image = problem.out_rows * problem.out_columns;
  const std::int64_t blocks = image * out_image;
  // Of one block the libraries can multiply by the filter's own row of taps
  // (layers/plans/matmul_plan.h).
  const bool suits = window.kernel > 1 && window.dilation == 1 && problem.groups == 1 &&
                     blocks > 1 && blocks <= most_blocks && problem.channels % word == 0 &&
                     problem.out_channels % word == 0;
  if (!suits || blocks * problem.channels * problem.out_channels > most_elements) return nullptr;
  return std::make_shared<ToeplitzRewrite>(problem);
}

}  // namespace tandem
