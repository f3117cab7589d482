#include "leaky_relu.h"

namespace tandem {
namespace {

class LeakyReluKernel : public LayerKernel {
 public:
  LeakyReluKernel(CpuContext& context, float slope) : context_(&context), slope_(slope) {}

  void forward(const ForwardArgs& args) override {
    leaky_relu_forward(*context_, args.output.elements(), slope_, args.inputs[0].data<float>(),
                       args.output.data<float>());
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;  // the first layer: nobody wants it
    leaky_relu_backward(*context_, args.output.elements(), slope_, args.output.data<float>(),
                        args.output_gradient.data<float>(), args.input_gradients[0].data<float>());
  }

 private:
  CpuContext* context_;
  float slope_;
};

}  // namespace

LayerPtr LeakyRelu::from_config(const ConfigTable& table) {
  return std::make_shared<LeakyRelu>(
      static_cast<float>(table.get_real_or("slope", 0.01, 1e-6, 0.999)));
}

std::unique_ptr<LayerKernel> LeakyRelu::prepare(AnyContext& context,
                                                const KernelRequest& /*request*/) const {
  // A layer for several kinds of device visits the context and overloads its kernels on it.
  auto* cpu = std::get_if<CpuContext>(&context);
  if (cpu == nullptr) {
    input_error("leaky_relu computes on the CPU alone; set train.device = \"cpu\"");
  }
  return std::make_unique<LeakyReluKernel>(*cpu, slope_);
}

}  // namespace tandem
