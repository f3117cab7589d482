#include "layers/convolution/conv_bn_pair.h"

#include <algorithm>

#include "device/arena.h"
#include "device/memory.h"
#include "layers/convolution/deferred_norm.h"

namespace tandem {
namespace {

using ConvBnPtr = std::shared_ptr<const ConvBn>;

/// The requests of the two layers.
struct Requests {
  KernelRequest maker;
  KernelRequest reader;
};

Requests requests_of(const AnyContext& context, const ConvBn& maker, const ConvBn& reader,
                     const KernelRequest& whole) {
  Requests made{whole, whole};
  made.maker.output = maker.output_shape(whole.inputs);
  made.reader.inputs = {made.maker.output};
  made.reader.input_gradients = {whole.training};
  made.reader.adds = {};
  TANDEM_CHECK(norm_reader(maker.options(), reader, 0, made.maker.output[3]) != NormReader::none,
               "a pair that leaves nothing to its reader");
  if (!is_host(context)) {
    made.maker.defers_norm = true;
    made.reader.input_norm = deferred_norm(maker.options(), made.maker, 0);
  }
  return made;
}

/// Kept until backward: the value between the two layers with its table, and what each keeps.
class PairKernel : public LayerKernel {
 public:
  PairKernel(AnyContext& context, const ConvBn& maker, const ConvBn& reader,
             const KernelRequest& whole)
      : PairKernel(context, maker, reader, requests_of(context, maker, reader, whole)) {}

  KernelMemory memory() const override {
    const KernelMemory a = maker_->memory();
    const KernelMemory b = reader_->memory();
    return {.saved = middle_bytes() + Arena::align(a.output_norm) + Arena::align(a.saved) + b.saved,
            .forward_scratch = std::max(a.forward_scratch, b.forward_scratch),
            .backward_scratch = middle_bytes() + std::max(a.backward_scratch, b.backward_scratch)};
  }

  void forward(const ForwardArgs& args) override {
    const Parts parts = parts_of(args.saved);
    maker_->forward({.inputs = args.inputs,
                     .output = parts.middle,
                     .parameters = args.parameters.first(3),
                     .weights = args.weights.first(3),
                     .buffers = args.buffers.first(2),
                     .buffers_apart = args.buffers_apart,
                     .saved = parts.makers,
                     .output_norm = parts.table,
                     .scratch = args.scratch,
                     .random = args.random});
    reader_->forward({.inputs = {&parts.middle, 1},
                      .output = args.output,
                      .parameters = args.parameters.last(3),
                      .weights = args.weights.last(3),
                      .buffers = args.buffers.last(2),
                      .buffers_apart = args.buffers_apart,
                      .saved = parts.readers,
                      .input_norm = parts.table,
                      .scratch = args.scratch,
                      .random = args.random});
  }

  void backward(const BackwardArgs& args) override {
    const Parts parts = parts_of(args.saved);
    const Tensor gradient(args.scratch, middle_, dtype_);
    std::byte* scratch = args.scratch + middle_bytes();
    reader_->backward({.inputs = {&parts.middle, 1},
                       .output = args.output,
                       .output_gradient = args.output_gradient,
                       .input_gradients = {&gradient, 1},
                       .parameters = args.parameters.last(3),
                       .weights = args.weights.last(3),
                       .parameter_gradients = args.parameter_gradients.last(3),
                       .saved = parts.readers,
                       .input_norm = parts.table,
                       .scratch = scratch});
    maker_->backward({.inputs = args.inputs,
                      .output = parts.middle,
                      .output_gradient = gradient,
                      .input_gradients = args.input_gradients,
                      .parameters = args.parameters.first(3),
                      .weights = args.weights.first(3),
                      .parameter_gradients = args.parameter_gradients.first(3),
                      .saved = parts.makers,
                      .output_norm = parts.table,
                      .scratch = scratch});
  }

 private:
  struct Parts {
    Tensor middle;
    std::byte* table;
    std::byte* makers;
    std::byte* readers;
  };

  PairKernel(AnyContext& context, const ConvBn& maker, const ConvBn& reader,
             const Requests& requests)
      : middle_(requests.maker.output),
        dtype_(requests.maker.dtype()),
        maker_(maker.prepare(context, requests.maker)),
        reader_(reader.prepare(context, requests.reader)) {}

  std::size_t middle_bytes() const {
    return Arena::align(Tensor(nullptr, middle_, dtype_).bytes());
  }
  Parts parts_of(std::byte* saved) const {
    const KernelMemory makers = maker_->memory();
    std::byte* table = saved + middle_bytes();
    std::byte* own = table + Arena::align(makers.output_norm);
    return {Tensor(saved, middle_, dtype_), table, own, own + Arena::align(makers.saved)};
  }

  Shape middle_;
  DType dtype_;
  std::unique_ptr<LayerKernel> maker_;
  std::unique_ptr<LayerKernel> reader_;
};

class ConvBnPair : public Layer {
 public:
  ConvBnPair(ConvBnPtr maker, ConvBnPtr reader)
      : maker_(std::move(maker)), reader_(std::move(reader)) {}

  std::string_view kind() const override { return "conv_bn_pair"; }
  Shape output_shape(std::span<const Shape> inputs) const override {
    const Shape middle = maker_->output_shape(inputs);
    return reader_->output_shape({&middle, 1});
  }
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override {
    std::vector<ParameterSpec> specs = maker_->parameters(inputs);
    const Shape middle = maker_->output_shape(inputs);
    std::ranges::move(reader_->parameters({&middle, 1}), std::back_inserter(specs));
    return specs;
  }
  std::vector<BufferSpec> buffers(std::span<const Shape> inputs) const override {
    std::vector<BufferSpec> specs = maker_->buffers(inputs);
    const Shape middle = maker_->output_shape(inputs);
    std::ranges::move(reader_->buffers({&middle, 1}), std::back_inserter(specs));
    return specs;
  }
  BackwardNeeds backward_needs() const override { return reader_->backward_needs(); }
  bool can_add_to(std::size_t input, const AnyContext& context) const override {
    return maker_->can_add_to(input, context);
  }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override {
    return std::make_unique<PairKernel>(context, *maker_, *reader_, request);
  }

 private:
  ConvBnPtr maker_;
  ConvBnPtr reader_;
};

}  // namespace

LayerPtr make_conv_bn_pair(const ConfigTable& keys) {
  const auto part = [&](std::string_view name) {
    return std::dynamic_pointer_cast<const ConvBn>(ConvBn::from_config(keys.table(name)));
  };
  return std::make_shared<ConvBnPair>(part("maker"), part("reader"));
}

}  // namespace tandem
