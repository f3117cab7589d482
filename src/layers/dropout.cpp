#include "layers/dropout.h"

#include "base/hash.h"
#include "layers/add.h"

namespace tandem {
namespace {

/// Saved for backward: the factors.
template <typename Context>
class DropoutTraining : public LayerKernel {
 public:
  DropoutTraining(Context& context, const DropoutShape& shape, double rate, const std::string& name)
      : context_(&context),
        shape_(shape),
        rate_(static_cast<float>(rate)),
        name_hash_(mix64(hash_text(name))) {}

  KernelMemory memory() const override {
    return {.saved = static_cast<std::size_t>(shape_.batch * shape_.units) * sizeof(float)};
  }
  void forward(const ForwardArgs& args) override {
    auto* factors = reinterpret_cast<float*>(args.saved);
    dropout_draw(*context_, shape_, rate_, args.random.seed ^ name_hash_, args.random, factors);
    dropout_apply(*context_, shape_, factors, args.inputs[0], args.output);
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    dropout_apply(*context_, shape_, reinterpret_cast<const float*>(args.saved),
                  args.output_gradient, args.input_gradients[0]);
  }

 private:
  Context* context_;
  DropoutShape shape_;
  float rate_;
  std::uint64_t name_hash_;
};

template <typename Context>
class DropoutEvaluation : public LayerKernel {
 public:
  explicit DropoutEvaluation(Context& context) : context_(&context) {}
  void forward(const ForwardArgs& args) override {
    copy_forward(*context_, args.inputs[0], args.output);
  }
  void backward(const BackwardArgs& /*args*/) override {
    throw Error("backward of a kernel prepared for evaluation");
  }

 private:
  Context* context_;
};

}  // namespace

std::unique_ptr<LayerKernel> Dropout::prepare(AnyContext& context,
                                              const KernelRequest& request) const {
  const std::int64_t batch = request.output[0];
  const std::int64_t elements = request.output.elements() / batch;
  const DropoutShape shape =
      unit_ == Unit::element ? DropoutShape{batch, elements, 1} : DropoutShape{batch, 1, elements};
  return std::visit(
      [&](auto& device) -> std::unique_ptr<LayerKernel> {
        using Context = std::remove_reference_t<decltype(device)>;
        if (!request.training) return std::make_unique<DropoutEvaluation<Context>>(device);
        return std::make_unique<DropoutTraining<Context>>(device, shape, rate_, request.name);
      },
      context);
}

}  // namespace tandem
