#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/convolution_direct.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;

/// What the kernels read of a problem, by value.
struct Geometry {
  std::int64_t batch, rows, columns, channels;
  std::int64_t out_rows, out_columns, out_channels;
  std::int64_t group_channels, group_filters;
  std::int64_t kernel, stride, padding, dilation;
};

Geometry geometry_of(const ConvolutionProblem& p) {
  return {.batch = p.batch,
          .rows = p.rows,
          .columns = p.columns,
          .channels = p.channels,
          .out_rows = p.out_rows,
          .out_columns = p.out_columns,
          .out_channels = p.out_channels,
          .group_channels = p.group_channels(),
          .group_filters = p.out_channels / p.groups,
          .kernel = p.window.kernel,
          .stride = p.window.stride,
          .padding = p.window.padding,
          .dilation = p.window.dilation};
}

/// One thread for a sample of y; `bias`: of each filter, or null.
template <typename T, typename Out>
__global__ void direct_forward(Geometry g, ResultSamples samples, const T* __restrict__ x,
                               const T* __restrict__ weight, const float* __restrict__ bias,
                               Out* __restrict__ y) {
  const std::int64_t sample = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (sample >= samples.count) return;
  const std::int64_t item = samples.place(sample);
  const std::int64_t filter = item % g.out_channels;
  const std::int64_t column = item / g.out_channels % g.out_columns;
  const std::int64_t row = item / g.out_channels / g.out_columns % g.out_rows;
  const std::int64_t image = item / g.out_channels / g.out_columns / g.out_rows;
  const std::int64_t first_channel = filter / g.group_filters * g.group_channels;
  float sum = 0.0F;
  for (std::int64_t r = 0; r < g.kernel; ++r) {
    const std::int64_t i = row * g.stride + r * g.dilation - g.padding;
    if (i < 0 || i >= g.rows) continue;
    for (std::int64_t s = 0; s < g.kernel; ++s) {
      const std::int64_t j = column * g.stride + s * g.dilation - g.padding;
      if (j < 0 || j >= g.columns) continue;
      const T* pixel = x + ((image * g.rows + i) * g.columns + j) * g.channels + first_channel;
      const T* tap = weight + ((filter * g.kernel + r) * g.kernel + s) * g.group_channels;
      for (std::int64_t c = 0; c < g.group_channels; ++c) {
        sum += to_float(pixel[c]) * to_float(tap[c]);
      }
    }
  }
  y[sample] = from_float<Out>(bias == nullptr ? sum : sum + bias[filter]);
}

/// One thread for a sample of dx; `addend`: what dx is added to, which may be dx, or null.
template <typename T, typename Out>
__global__ void direct_data_gradient(Geometry g, ResultSamples samples, const T* __restrict__ dy,
                                     const T* __restrict__ weight, const T* addend, Out* dx) {
  const std::int64_t sample = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (sample >= samples.count) return;
  const std::int64_t item = samples.place(sample);
  const std::int64_t channel = item % g.channels;
  const std::int64_t column = item / g.channels % g.columns;
  const std::int64_t row = item / g.channels / g.columns % g.rows;
  const std::int64_t image = item / g.channels / g.columns / g.rows;
  const std::int64_t group = channel / g.group_channels;
  const std::int64_t c = channel % g.group_channels;
  float sum = 0.0F;
  for (std::int64_t r = 0; r < g.kernel; ++r) {
    const std::int64_t i = row + g.padding - r * g.dilation;
    if (i < 0 || i % g.stride != 0 || i / g.stride >= g.out_rows) continue;
    for (std::int64_t s = 0; s < g.kernel; ++s) {
      const std::int64_t j = column + g.padding - s * g.dilation;
      if (j < 0 || j % g.stride != 0 || j / g.stride >= g.out_columns) continue;
      const std::int64_t pixel = (image * g.out_rows + i / g.stride) * g.out_columns + j / g.stride;
      for (std::int64_t f = 0; f < g.group_filters; ++f) {
        const std::int64_t filter = group * g.group_filters + f;
        sum += to_float(dy[pixel * g.out_channels + filter]) *
               to_float(weight[((filter * g.kernel + r) * g.kernel + s) * g.group_channels + c]);
      }
    }
  }
  dx[sample] = from_float<Out>(addend == nullptr ? sum : to_float(addend[item]) + sum);
}

/// One block for a sample of dw; its threads' sums are added in a fixed order.
template <typename T>
__global__ void direct_weight_gradient(Geometry g, ResultSamples samples, const T* __restrict__ x,
                                       const T* __restrict__ dy, float* __restrict__ dw) {
  const std::int64_t item = samples.place(blockIdx.x);
  const std::int64_t c = item % g.group_channels;
  const std::int64_t s = item / g.group_channels % g.kernel;
  const std::int64_t r = item / g.group_channels / g.kernel % g.kernel;
  const std::int64_t filter = item / g.group_channels / g.kernel / g.kernel;
  const std::int64_t channel = filter / g.group_filters * g.group_channels + c;
  const std::int64_t pixels = g.batch * g.out_rows * g.out_columns;
  float sum = 0.0F;
  for (std::int64_t pixel = threadIdx.x; pixel < pixels; pixel += threads) {
    const std::int64_t i =
        pixel / g.out_columns % g.out_rows * g.stride + r * g.dilation - g.padding;
    const std::int64_t j = pixel % g.out_columns * g.stride + s * g.dilation - g.padding;
    if (i < 0 || i >= g.rows || j < 0 || j >= g.columns) continue;
    const std::int64_t image = pixel / g.out_columns / g.out_rows;
    sum += to_float(x[((image * g.rows + i) * g.columns + j) * g.channels + channel]) *
           to_float(dy[pixel * g.out_channels + filter]);
  }
  __shared__ float sums[threads];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) dw[blockIdx.x] = sums[0];
}

/// The samples of the result into `out`, one after another.
template <typename T, typename Out>
void launch(CudaContext& context, const ConvolutionProblem& problem, const ResultSamples& samples,
            const T* first, const T* second, const T* addend, const float* bias, Out* out) {
  const Geometry g = geometry_of(problem);
  const unsigned blocks = blocks_for(samples.count, threads);
  cudaStream_t stream = context.stream();
  switch (problem.operation) {
    case ConvolutionOperation::forward:
      direct_forward<<<blocks, threads, 0, stream>>>(g, samples, first, second, bias, out);
      break;
    case ConvolutionOperation::data_gradient:
      direct_data_gradient<<<blocks, threads, 0, stream>>>(g, samples, first, second, addend, out);
      break;
    case ConvolutionOperation::weight_gradient:
      direct_weight_gradient<<<static_cast<unsigned>(samples.count), threads, 0, stream>>>(
          g, samples, first, second, reinterpret_cast<float*>(out));
      break;
  }
  TANDEM_CUDA_CHECK_LAUNCH();
}

class DirectPlan final : public ConvolutionPlan {
 public:
  DirectPlan(CudaContext& context, const ConvolutionProblem& problem)
      : context_(&context), problem_(problem) {}

  std::string name() const override { return "direct"; }
  std::size_t scratch() const override { return 0; }

  void run(const void* first, const void* second, void* result, std::byte*) const override {
    const ResultSamples all{.count = problem_.result_elements()};
    with_element_type(problem_.dtype(), [&](auto element) {
      using T = decltype(element);
      T* out = static_cast<T*>(result);
      launch(*context_, problem_, all, static_cast<const T*>(first), static_cast<const T*>(second),
             problem_.adds ? out : nullptr, nullptr, out);
    });
  }

 private:
  CudaContext* context_;
  ConvolutionProblem problem_;
};

}  // namespace

ConvolutionPlanPtr direct_convolution_plan(CudaContext& context,
                                           const ConvolutionProblem& problem) {
  return std::make_shared<DirectPlan>(context, problem);
}

void enqueue_direct_samples(CudaContext& context, const ConvolutionProblem& problem,
                            const ResultSamples& samples, const void* first, const void* second,
                            const void* result, const float* bias, float* values) {
  with_element_type(problem.dtype(), [&](auto element) {
    using T = decltype(element);
    launch(context, problem, samples, static_cast<const T*>(first), static_cast<const T*>(second),
           problem.adds ? static_cast<const T*>(result) : nullptr, bias, values);
  });
}

}  // namespace tandem
