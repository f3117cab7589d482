#include "layers/depthwise_conv_cuda.h"

#include <limits>

#include "base/error.h"
#include "device/cuda_context.h"
#include "layers/add.h"
#include "layers/batch_norm_kernels_cuda.h"
#include "layers/convolution_cuda.h"
#include "layers/depthwise_strips_cuda.h"

namespace tandem {
namespace {

using cuda_depthwise::InputNorm;
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
  DepthwiseCudaConvolution(CudaContext& context, const Problem& problem, bool strips,
                           const Shape& input, const Mode& mode)
      : context_(&context),
        problem_(problem),
        strips_(strips),
        adds_(mode.adds),
        input_norm_(mode.input_norm) {
    TANDEM_CHECK(strips_ || !input_norm_, "this depthwise convolution cannot normalise its input");
    if (adds_) addend_bytes_ = Tensor(nullptr, input, problem.dtype).bytes();
    if (!mode.weight_gradient) return;
    partial_bytes_ = strips_ ? partial_bytes(problem_) : partial_bytes_any(problem_);
  }

  std::size_t backward_data_scratch() const override { return addend_bytes_; }
  std::size_t backward_weights_scratch() const override { return partial_bytes_; }

  void forward(const Input& x, const Tensor& weight, const Tensor& y,
               std::byte* /*scratch*/) override {
    if (strips_) {
      cuda_depthwise::forward(context_->stream(), problem_, x.tensor.raw(), norm_of(x),
                              weight.raw(), y.raw());
    } else {
      forward_any(context_->stream(), problem_, x.tensor.raw(), weight.raw(), y.raw());
    }
  }

  void backward_data(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                     std::byte* scratch) override {
    const auto run = strips_ ? cuda_depthwise::backward_data : cuda_depthwise::backward_data_any;
    run(context_->stream(), problem_, dy.raw(), weight.raw(), adds_ ? scratch : dx.raw());
    if (adds_) add_forward(*context_, Tensor(scratch, dx.shape(), dx.dtype()), dx, dx);
  }

  void backward_weights(const Input& x, const Tensor& dy, const Tensor& dw,
                        std::byte* scratch) override {
    auto* partials = reinterpret_cast<float*>(scratch);
    if (strips_) {
      cuda_depthwise::backward_weights(context_->stream(), problem_, x.tensor.raw(), norm_of(x),
                                       dy.raw(), partials, dw.data<float>());
    } else {
      backward_weights_any(context_->stream(), problem_, x.tensor.raw(), dy.raw(), partials,
                           dw.data<float>());
    }
  }

 private:
  /// What the maker of x left to do, with its table.
  InputNorm norm_of(const Input& x) const {
    if (!input_norm_) return {};
    TANDEM_CHECK(x.norm != nullptr, "an input to normalise without a table");
    const BatchNormTable table =
        BatchNormTable::at(x.norm, {.channels = problem_.channels, .groups = input_norm_->groups});
    return {.activation = input_norm_->activation,
            .scale = table.scale,
            .shift = table.shift,
            .apart = table.apart,
            .samples = problem_.batch / static_cast<int>(input_norm_->groups)};
  }

  CudaContext* context_;
  Problem problem_;
  bool strips_;
  bool adds_;
  std::optional<DeferredNorm> input_norm_;
  std::size_t addend_bytes_ = 0;
  std::size_t partial_bytes_ = 0;
};

}  // namespace

std::unique_ptr<CudaConvolution> make_cuda_depthwise_convolution(
    CudaContext& context, const Conv2dOptions& options, const Shape& input, const Shape& output,
    const CudaConvolution::Mode& mode) {
  return std::make_unique<DepthwiseCudaConvolution>(
      context, problem_of(context, options, input, output, mode.precision),
      cuda_depthwise::has_strips(options.window, input[3]), input, mode);
}

}  // namespace tandem
