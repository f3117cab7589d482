#include "layers/depthwise_conv_cuda.h"

#include <limits>

#include "base/error.h"
#include "device/cuda_context.h"
#include "layers/add.h"
#include "layers/convolution_cuda.h"

namespace tandem {
namespace cuda_depthwise {

bool Problem::has_strips() const {
  return (kernel == 3 || kernel == 5) && (stride == 1 || stride == 2) && padding == kernel / 2 &&
         dilation == 1 && channels % 2 == 0;
}

}  // namespace cuda_depthwise

namespace {

using cuda_depthwise::Problem;

/// What kernels index with 32 bits: within an image, and the weights.
int narrow(std::int64_t value) {
  TANDEM_CHECK(value >= 0 && value <= std::numeric_limits<int>::max() / 2,
               "a depthwise convolution's size of {} is too large for its kernels", value);
  return static_cast<int>(value);
}

Problem problem_of(const CudaContext& context, const Conv2dOptions& options, const Shape& input,
                   const Shape& output, Precision precision) {
  const Window& window = options.window;
  TANDEM_CHECK(options.groups == input[3] && options.out_channels == input[3],
               "{} groups over {} channels are not depthwise", options.groups, input[3]);
  narrow((input[1] + window.padding) * (input[2] + window.padding) * input[3]);
  narrow(window.kernel * window.kernel * input[3]);
  return {.batch = narrow(input[0]),
          .rows = narrow(input[1]),
          .columns = narrow(input[2]),
          .out_rows = narrow(output[1]),
          .out_columns = narrow(output[2]),
          .channels = narrow(input[3]),
          .kernel = narrow(window.kernel),
          .stride = narrow(window.stride),
          .padding = narrow(window.padding),
          .dilation = narrow(window.dilation),
          .dtype = activation_dtype(precision),
          .multiprocessors = context.device().multiprocessors};
}

class DepthwiseCudaConvolution final : public CudaConvolution {
 public:
  DepthwiseCudaConvolution(CudaContext& context, const Problem& problem, const Shape& input,
                           const Mode& mode)
      : context_(&context), problem_(problem), strips_(problem.has_strips()), adds_(mode.adds) {
    if (adds_) addend_bytes_ = Tensor(nullptr, input, problem.dtype).bytes();
    if (!mode.weight_gradient) return;
    partial_bytes_ = strips_ ? partial_bytes(problem_) : partial_bytes_any(problem_);
  }

  std::size_t backward_data_scratch() const override { return addend_bytes_; }
  std::size_t backward_weights_scratch() const override { return partial_bytes_; }

  void forward(const Tensor& x, const Tensor& weight, const Tensor& y,
               std::byte* /*scratch*/) override {
    const auto run = strips_ ? cuda_depthwise::forward : cuda_depthwise::forward_any;
    run(context_->stream(), problem_, x.raw(), weight.raw(), y.raw());
  }

  void backward_data(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                     std::byte* scratch) override {
    const auto run = strips_ ? cuda_depthwise::backward_data : cuda_depthwise::backward_data_any;
    run(context_->stream(), problem_, dy.raw(), weight.raw(), adds_ ? scratch : dx.raw());
    if (adds_) add_forward(*context_, Tensor(scratch, dx.shape(), dx.dtype()), dx, dx);
  }

  void backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                        std::byte* scratch) override {
    const auto run =
        strips_ ? cuda_depthwise::backward_weights : cuda_depthwise::backward_weights_any;
    run(context_->stream(), problem_, x.raw(), dy.raw(), reinterpret_cast<float*>(scratch),
        dw.data<float>());
  }

 private:
  CudaContext* context_;
  Problem problem_;
  bool strips_;
  bool adds_;
  std::size_t addend_bytes_ = 0;
  std::size_t partial_bytes_ = 0;
};

}  // namespace

std::unique_ptr<CudaConvolution> make_cuda_depthwise_convolution(
    CudaContext& context, const Conv2dOptions& options, const Shape& input, const Shape& output,
    const CudaConvolution::Mode& mode) {
  return std::make_unique<DepthwiseCudaConvolution>(
      context, problem_of(context, options, input, output, mode.precision), input, mode);
}

}  // namespace tandem
