#include "layers/kernel_run.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

namespace tandem {
namespace {

constexpr auto guard_byte = std::byte{0xa5};

/// Every piece of memory of one run.
class Workbench {
 public:
  explicit Workbench(unsigned char content) : content_(content) {}

  std::byte* memory(std::size_t bytes) { return pieces_.emplace_back(bytes, content_).data(); }
  Tensor tensor(const Shape& shape) {
    return {memory(static_cast<std::size_t>(shape.elements()) * sizeof(float)), shape};
  }
  Tensor tensor(const Shape& shape, const std::vector<float>& values) {
    const Tensor made = tensor(shape);
    std::ranges::copy(values, made.data<float>());
    return made;
  }
  bool intact() const {
    return std::ranges::all_of(pieces_, [](const GuardedMemory& piece) { return piece.intact(); });
  }

 private:
  unsigned char content_;
  std::deque<GuardedMemory> pieces_;
};

std::vector<float> values_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

std::vector<std::vector<float>> values_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<float>> values;
  for (const Tensor& tensor : tensors) values.push_back(values_of(tensor));
  return values;
}

template <typename Spec>
std::vector<Tensor> tensors_of(Workbench& bench, const std::vector<Spec>& specs,
                               const std::vector<std::vector<float>>* values) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    tensors.push_back(values == nullptr ? bench.tensor(specs[i].shape)
                                        : bench.tensor(specs[i].shape, (*values)[i]));
  }
  return tensors;
}

}  // namespace

void GuardedMemory::Free::operator()(std::byte* memory) const { std::free(memory); }

GuardedMemory::GuardedMemory(std::size_t bytes, unsigned char content) : bytes_(bytes) {
  const std::size_t rounded = (bytes + 2 * guard + 63) / 64 * 64;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  std::fill_n(memory_.get(), bytes + 2 * guard, guard_byte);
  std::fill_n(data(), bytes, std::byte{content});
}

std::byte* GuardedMemory::data() { return memory_.get() + guard; }

bool GuardedMemory::intact() const {
  const std::byte* begin = memory_.get();
  const auto untouched = [](std::byte byte) { return byte == guard_byte; };
  return std::all_of(begin, begin + guard, untouched) &&
         std::all_of(begin + guard + bytes_, begin + bytes_ + 2 * guard, untouched);
}

std::vector<bool> inputs_added_to(const Layer& layer, const AnyContext& context) {
  std::vector<bool> adds;
  for (std::size_t i = 0; i < layer.arity(); ++i) adds.push_back(layer.can_add_to(i, context));
  return adds;
}

std::vector<float> gradient_before(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.5F * static_cast<float>(i * 7 % 13) - 3.0F;
  return values;
}

KernelResult run_kernel(const Layer& layer, const KernelData& data, const KernelMode& mode) {
  AnyContext context(std::in_place_type<CpuContext>, mode.threads);
  Workbench bench(mode.content);
  const Shape output = layer.output_shape(data.input_shapes);
  const auto specs = layer.parameters(data.input_shapes);
  const auto kernel = layer.prepare(context, {.inputs = data.input_shapes,
                                              .output = output,
                                              .training = mode.training,
                                              .input_gradients = mode.wanted,
                                              .adds = mode.adds,
                                              .name = test_layer_name,
                                              .fixed_statistics = mode.fixed_statistics,
                                              .batch_groups = mode.groups});
  const KernelMemory sizes = kernel->memory();
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    inputs.push_back(bench.tensor(data.input_shapes[i], data.inputs[i]));
  }
  const auto parameters = tensors_of(bench, specs, &data.parameters);
  const RankBuffers buffers(
      layer.buffers(data.input_shapes), data.buffers, mode.training ? mode.groups : 1,
      [&](const Shape& shape, const auto& values) { return bench.tensor(shape, values); });
  const Tensor y = bench.tensor(output);
  std::byte* saved = bench.memory(sizes.saved);
  kernel->forward({.inputs = inputs,
                   .output = y,
                   .parameters = parameters,
                   .weights = parameters,
                   .buffers = buffers.first(),
                   .buffers_apart = buffers.apart(),
                   .saved = saved,
                   .scratch = bench.memory(sizes.forward_scratch),
                   .random = mode.training ? test_random : StepRandom{}});
  KernelResult result{.output = values_of(y),
                      .buffers = buffers.of_ranks(values_of(buffers.pieces()))};
  if (mode.training) {
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      gradients.push_back(mode.wanted[i] ? bench.tensor(data.input_shapes[i]) : Tensor());
      if (!mode.adds.empty() && mode.adds[i] && mode.wanted[i]) {
        std::ranges::copy(gradient_before(data.inputs[i].size()), gradients[i].data<float>());
      }
    }
    // What backward does not ask for is given away by the memory plan: here it becomes rubbish.
    const BackwardNeeds needs = layer.backward_needs();
    result.inputs_untouched = values_of(inputs) == data.inputs;
    if (!needs.output) std::memset(y.raw(), mode.content, y.bytes());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!needs.input(i)) std::memset(inputs[i].raw(), mode.content, inputs[i].bytes());
    }
    const auto parameter_gradients = tensors_of(bench, specs, nullptr);
    kernel->backward({.inputs = inputs,
                      .output = y,
                      .output_gradient = bench.tensor(output, data.output_gradient),
                      .input_gradients = gradients,
                      .parameters = parameters,
                      .weights = parameters,
                      .parameter_gradients = parameter_gradients,
                      .saved = saved,
                      .handed_on = bench.memory(sizes.handed_on),
                      .scratch = bench.memory(sizes.backward_scratch)});
    result.input_gradients = values_of(gradients);
    result.parameter_gradients = values_of(parameter_gradients);
  } else {
    result.inputs_untouched = values_of(inputs) == data.inputs;
  }
  result.guards_intact = bench.intact() && values_of(parameters) == data.parameters;
  return result;
}

}  // namespace tandem
