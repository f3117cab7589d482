#include "layers/convolution/convolution_cuda.h"

#include "layers/tuning/plan_tuner.h"

namespace tandem {
namespace {

/// The three convolutions by the plans that were chosen for them.
class PlannedConvolution final : public CudaConvolution {
 public:
  PlannedConvolution(CudaContext& context, const Conv2dOptions& options, const Shape& input,
                     const Shape& output, const Mode& mode) {
    const auto choose = [&](ConvolutionOperation operation, bool adds = false) {
      ConvolutionProblem problem =
          convolution_problem(operation, mode.precision, options, input, output);
      problem.adds = adds;
      return choose_plan(context, problem);
    };
    forward_ = choose(ConvolutionOperation::forward);
    if (mode.input_gradient) data_ = choose(ConvolutionOperation::data_gradient, mode.adds);
    if (mode.weight_gradient) weights_ = choose(ConvolutionOperation::weight_gradient);
  }

  std::size_t forward_scratch() const override { return forward_->scratch(); }
  std::size_t backward_data_scratch() const override {
    return data_ == nullptr ? 0 : data_->scratch();
  }
  std::size_t backward_weights_scratch() const override {
    return weights_ == nullptr ? 0 : weights_->scratch();
  }

  void forward(const Input& x, const Tensor& weight, const Tensor& y, std::byte* scratch) override {
    forward_->run(x.tensor.raw(), weight.raw(), y.raw(), scratch);
  }
  void backward_data(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                     std::byte* scratch) override {
    TANDEM_CHECK(data_ != nullptr, "no data gradient was prepared");
    data_->run(dy.raw(), weight.raw(), dx.raw(), scratch);
  }
  void backward_weights(const Input& x, const Tensor& dy, const Tensor& dw,
                        std::byte* scratch) override {
    TANDEM_CHECK(weights_ != nullptr, "no weight gradient was prepared");
    weights_->run(x.tensor.raw(), dy.raw(), dw.raw(), scratch);
  }

 private:
  ConvolutionPlanPtr forward_;
  ConvolutionPlanPtr data_;
  ConvolutionPlanPtr weights_;
};

}  // namespace

std::unique_ptr<CudaConvolution> make_cuda_convolution(CudaContext& context,
                                                       const Conv2dOptions& options,
                                                       const Shape& input, const Shape& output,
                                                       const CudaConvolution::Mode& mode) {
  if (mode.input_norm) return make_normalising_depthwise(context, options, input, output, mode);
  return std::make_unique<PlannedConvolution>(context, options, input, output, mode);
}

}  // namespace tandem
