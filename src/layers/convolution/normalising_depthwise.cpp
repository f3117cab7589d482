#include "base/error.h"
#include "device/cuda_context.h"
#include "layers/convolution/convolution_cuda.h"
#include "layers/depthwise/depthwise_strips_cuda.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/plans/depthwise_plan.h"
#include "layers/tuning/plan_tuner.h"

namespace tandem {
namespace {

/// What reads x does so through its normalisation, which the strips' kernels alone can.
class NormalisingDepthwise final : public CudaConvolution {
 public:
  NormalisingDepthwise(CudaContext& context, const Conv2dOptions& options, const Shape& input,
                       const Shape& output, const Mode& mode)
      : context_(&context), input_norm_(mode.input_norm.value()) {
    const auto whole = [&](ConvolutionOperation operation) {
      return convolution_problem(operation, mode.precision, options, input, output);
    };
    TANDEM_CHECK(cuda_depthwise::has_strips(options.window, input[3]),
                 "this depthwise convolution cannot normalise its input");
    TANDEM_CHECK(input_norm_.activation != Activation::none,
                 "an input to normalise without an activation");
    problem_ = depthwise_problem(context, whole(ConvolutionOperation::forward));
    if (mode.weight_gradient) partial_bytes_ = partial_bytes(problem_);
    if (!mode.input_gradient) return;
    ConvolutionProblem data = whole(ConvolutionOperation::data_gradient);
    data.adds = mode.adds;
    data_ = choose_plan(context, data);
  }

  std::size_t backward_data_scratch() const override {
    return data_ == nullptr ? 0 : data_->scratch();
  }
  std::size_t backward_weights_scratch() const override { return partial_bytes_; }

  void forward(const Input& x, const Tensor& weight, const Tensor& y,
               std::byte* /*scratch*/) override {
    cuda_depthwise::forward(context_->stream(), problem_, x.tensor.raw(), norm_of(x), weight.raw(),
                            y.raw());
  }
  void backward_data(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                     std::byte* scratch) override {
    TANDEM_CHECK(data_ != nullptr, "no data gradient was prepared");
    data_->run(dy.raw(), weight.raw(), dx.raw(), scratch);
  }
  void backward_weights(const Input& x, const Tensor& dy, const Tensor& dw,
                        std::byte* scratch) override {
    cuda_depthwise::backward_weights(context_->stream(), problem_, x.tensor.raw(), norm_of(x),
                                     dy.raw(), reinterpret_cast<float*>(scratch), dw.data<float>());
  }

 private:
  InputNorm norm_of(const Input& x) const {
    return input_norm_of(input_norm_, x.norm, problem_.channels, problem_.batch);
  }

  CudaContext* context_;
  DeferredNorm input_norm_;
  cuda_depthwise::Problem problem_{};
  std::size_t partial_bytes_ = 0;
  ConvolutionPlanPtr data_;
};

}  // namespace

std::unique_ptr<CudaConvolution> make_normalising_depthwise(CudaContext& context,
                                                            const Conv2dOptions& options,
                                                            const Shape& input, const Shape& output,
                                                            const CudaConvolution::Mode& mode) {
  return std::make_unique<NormalisingDepthwise>(context, options, input, output, mode);
}

}  // namespace tandem
