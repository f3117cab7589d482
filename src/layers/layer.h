#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/any_context.h"
#include "layers/rank_sum.h"
#include "tensor/precision.h"
#include "tensor/tensor.h"

namespace tandem {

/// Kernels are overloaded on both kinds of context; a build without CUDA has no CudaContext that
/// could call its overloads.
class CudaContext;

/// What a parameter is for; decides whether weight decay may skip it.
enum class ParameterRole : std::uint8_t { weight, bias, norm };

/// How a parameter starts. Each element is drawn from (seed, parameter name, element index).
struct Initializer {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  /// The constant; the normal's standard deviation; the uniform's bound b in [-b, b).
  double value = 0.0;
};

/// A trainable tensor of a layer; `name` is the last part of its full name ("weight").
struct ParameterSpec {
  std::string name;
  Shape shape;
  ParameterRole role = ParameterRole::weight;
  Initializer init;
};

/// A tensor that training updates without a gradient, such as a running mean.
struct BufferSpec {
  std::string name;
  Shape shape;
  float initial = 0.0F;
};

/// Which of the forward pass's tensors a layer's backward pass reads. The memory plan keeps those
/// and gives the rest away.
struct BackwardNeeds {
  bool inputs = false;
  bool output = false;  ///< if its kernel does (LayerKernel::reads_output())
  /// Of the inputs the first one alone is read.
  bool first_input_alone = false;

  bool input(std::size_t index) const { return inputs && (index == 0 || !first_input_alone); }
};

enum class Activation : std::uint8_t;

/// How it is chosen on a GPU whether one kernel normalises a tensor or two: those that are fastest
/// by themselves (layers/normalisation/batch_norm_choice_cuda.h), or by the tensor's size.
enum class NormKernels : std::uint8_t { by_timing, by_size };

/// What an unfinished value (KernelRequest::defers_norm) stands for: activation(scale x + shift),
/// rounded to its type, with scales and shifts by channel that lie in a table beside it.
struct DeferredNorm {
  Activation activation{};
  std::int64_t groups = 1;  ///< equal parts of the batch, each with scales and shifts of its own
  std::size_t input = 0;    ///< of its reader
};

/// What random layers draw from in a training step. A draw depends on the run's seed, the layer's
/// name and the place of the sample in the whole run, so that neither ranks, micro-batches nor
/// threads change it, and a resumed run goes on with the same draws.
struct StepRandom {
  std::uint64_t seed = 0;
  /// Place of the batch's first sample in the run's sequence of samples: those of step s begin at s
  /// times the global batch. The others follow it.
  std::uint64_t first_sample = 0;
  /// Where not null: kernels of a device read the place there, in its memory, when they run, and
  /// `first_sample` counts from it. A captured step is launched again with the arguments that it
  /// was captured with.
  const std::uint64_t* base_on_device = nullptr;
};

/// What a kernel works on. Tensors are dense, images NHWC. Inputs, output and their gradients are
/// of KernelRequest::dtype(); parameters, their gradients and buffers f32.
struct ForwardArgs {
  std::span<const Tensor> inputs;
  Tensor output;
  std::span<const Tensor> parameters;
  /// The parameters in the activations' dtype, for products to read: the same tensors where that is
  /// f32.
  std::span<const Tensor> weights{};
  std::span<const Tensor> buffers;
  /// In training, where KernelRequest::batch_groups is above one: elements from each buffer to that
  /// of the next rank.
  std::int64_t buffers_apart = 0;
  std::byte* saved = nullptr;  ///< KernelMemory::saved bytes, kept until backward
  /// KernelMemory::output_norm bytes, kept until backward, the reader's too.
  std::byte* output_norm = nullptr;
  /// Where KernelRequest::input_norm is set: what that input's maker left there.
  std::byte* input_norm = nullptr;
  std::byte* scratch = nullptr;  ///< KernelMemory::forward_scratch bytes, for this call alone
  StepRandom random{};           ///< in training
};

struct BackwardArgs {
  std::span<const Tensor> inputs;
  Tensor output;
  /// The kernel may overwrite it: nobody reads it afterwards.
  Tensor output_gradient;
  /// Overwritten, but added to where KernelRequest::adds says so. Undefined where no gradient is
  /// wanted.
  std::span<const Tensor> input_gradients;
  std::span<const Tensor> parameters;
  std::span<const Tensor> weights{};  ///< as in the forward pass
  /// Overwritten, not added to. Always defined; what is in those that KernelRequest does not want
  /// is thrown away.
  std::span<const Tensor> parameter_gradients;
  std::byte* saved = nullptr;
  std::byte* handed_on = nullptr;    ///< KernelMemory::handed_on bytes
  std::byte* output_norm = nullptr;  ///< as in the forward pass
  std::byte* input_norm = nullptr;   ///< as in the forward pass
  std::byte* scratch = nullptr;
};

/// Bytes that a kernel needs beside its tensors; 256-byte aligned when handed over.
struct KernelMemory {
  std::size_t saved = 0;
  std::size_t output_norm = 0;  ///< the table, where KernelRequest::defers_norm
  std::size_t forward_scratch = 0;
  std::size_t backward_scratch = 0;
  /// What backward() leaves for backward_weights() beside the output's gradient.
  std::size_t handed_on = 0;
  std::size_t weights_scratch = 0;  ///< of backward_weights()
};

/// A layer prepared for one device, batch and mode: primitives are made, nothing is allocated or
/// decided any more. Holds no tensors, so that one kernel can run on any memory of its shapes.
class LayerKernel {
 public:
  virtual ~LayerKernel() = default;
  virtual KernelMemory memory() const { return {}; }
  virtual void forward(const ForwardArgs& args) = 0;
  /// Whether backward() reads the output, which it may only where Layer::backward_needs() says so.
  virtual bool reads_output() const { return true; }
  /// Only for kernels prepared for training, after a forward on the same tensors.
  virtual void backward(const BackwardArgs& args) = 0;
  /// Whether backward() leaves out gradients of parameters that backward_weights() then computes.
  /// Only where KernelRequest::split_backward asks for it.
  virtual bool splits_backward() const { return false; }
  /// Where backward is split: whether backward() touches this parameter's gradient in no way.
  virtual bool leaves_gradient(std::size_t /*parameter*/) const { return false; }
  /// The rest of backward(), where that is split. It may go on beside what is enqueued after
  /// backward(), of this layer and of others, so it is given what is kept until then and no more:
  /// the inputs with input_norm, the output's gradient and `handed_on` as backward() left them,
  /// parameters, weights, the parameters' gradients, and scratch of its own.
  virtual void backward_weights(const BackwardArgs& /*args*/) {}
};

/// What prepare() is asked for. Shapes include the batch as their first extent.
struct KernelRequest {
  std::vector<Shape> inputs{};
  Shape output;
  bool training = false;
  /// What to compute in; on a CPU fp32 alone.
  Precision precision = Precision::fp32;
  /// One per input: whether backward writes its gradient.
  std::vector<bool> input_gradients{};
  /// One per input: whether backward adds to its gradient, which another reader of the value wrote
  /// already. Only for inputs that Layer::can_add_to() names; empty where none is added to.
  std::vector<bool> adds{};
  /// The layer's name in its model; random layers draw by it.
  std::string name{};

  DType dtype() const { return activation_dtype(precision); }
  bool adds_to(std::size_t input) const { return input < adds.size() && adds[input]; }
  /// One per parameter: whether its gradient is read; a kernel may leave the others out. Empty:
  /// all.
  std::vector<bool> parameter_gradients{};
  /// In training: normalise with the running statistics and leave them as they are, as in
  /// evaluation. Asked of layers whose normalising parameters are all frozen.
  bool fixed_statistics = false;
  /// Whether backward may be split (LayerKernel::splits_backward()).
  bool split_backward = false;
  /// In training: whom batch statistics are taken over; null: this rank alone. Outlives the kernel.
  RankSum* rank_sum = nullptr;
  /// In training, where rank_sum is null: of how many ranks this batch holds the samples, one
  /// rank's behind the other's. Batch statistics are taken over each one's samples, which its
  /// running ones follow (ForwardArgs::buffers_apart). It divides the batch.
  std::int64_t batch_groups = 1;
  NormKernels norm_kernels = NormKernels::by_timing;

  /// Whether the layer leaves its last steps, a normalisation's scale and shift and an activation,
  /// to the one reader of its output: the output then holds what they apply to, and is kept until
  /// this layer's backward. Only where there is a norm_reader()
  /// (layers/convolution/deferred_norm.h).
  bool defers_norm = false;
  /// What is left to do to an input; its gradient is still that of the finished value.
  std::optional<DeferredNorm> input_norm{};

  bool wants_parameter(std::size_t index) const {
    return training && (parameter_gradients.empty() || parameter_gradients[index]);
  }
};

/// What a training step of a layer touches, in elements, and what it can leave out
/// (graph/layer_cost.h).
struct LayerTraffic {
  std::vector<std::int64_t> inputs;  ///< of each; fewer than it has where the layer takes a part
  /// Of what its product leaves to what follows within the layer. Means nothing without a product.
  std::int64_t product = 0;
  /// Whether forward can write a bit an element that backward reads in the output's place
  /// (BackwardNeeds::output).
  bool bits_for_output = false;
};

/// A kind of layer with its options: shape rule, parameters and kernels. Immutable and shared.
class Layer {
 public:
  virtual ~Layer() = default;

  /// The name in the registry and in model files.
  virtual std::string_view kind() const = 0;
  /// How many inputs it takes.
  virtual std::size_t arity() const { return 1; }
  /// The output's shape. Throws InputError that tells the sizes where the inputs do not fit.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  /// Parameters and buffers for inputs of these shapes, in the order in which kernels get them.
  virtual std::vector<ParameterSpec> parameters(std::span<const Shape> /*inputs*/) const {
    return {};
  }
  virtual std::vector<BufferSpec> buffers(std::span<const Shape> /*inputs*/) const { return {}; }
  virtual BackwardNeeds backward_needs() const { return {}; }
  /// Whether its kernels on this device can add to the input's gradient instead of overwriting it,
  /// which saves a temporary and passes over it where several layers read one value.
  virtual bool can_add_to(std::size_t /*input*/, const AnyContext& /*context*/) const {
    return false;
  }
  /// Elements that a split backward pass's second half has to do with, the inputs' and the output's
  /// for most: of few it is worth computing beside other layers.
  virtual std::int64_t split_elements(std::span<const Shape> inputs, const Shape& output) const {
    std::int64_t elements = output.elements();
    for (const Shape& input : inputs) elements += input.elements();
    return elements;
  }
  /// Options that decide what its kernels do and that neither kind, shapes nor parameters show,
  /// such as a window's padding: for keys of what is measured and kept.
  virtual std::string options_text() const { return {}; }
  /// Multiply-adds of one forward pass over these inputs; elementwise work counts as none.
  virtual std::int64_t multiply_adds(std::span<const Shape> /*inputs*/) const { return 0; }
  /// For estimates of what a step costs. Here: all of the inputs, and a product that is the output.
  virtual LayerTraffic traffic(std::span<const Shape> inputs, DType /*dtype*/) const {
    LayerTraffic traffic{.inputs = {}, .product = output_shape(inputs).elements()};
    for (const Shape& input : inputs) traffic.inputs.push_back(input.elements());
    return traffic;
  }
  /// The kernel may keep references to `context`, which outlives it.
  virtual std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                               const KernelRequest& request) const = 0;
};

using LayerPtr = std::shared_ptr<const Layer>;

}  // namespace tandem
