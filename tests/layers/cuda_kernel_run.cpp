#include "layers/cuda_kernel_run.h"

#include <algorithm>
#include <deque>

#include "device/arena.h"
#include "device/memory.h"
#include "tensor/convert.h"

namespace tandem {
namespace {

/// Device memory between guards.
class GuardedDeviceMemory {
 public:
  GuardedDeviceMemory(AnyContext& context, std::size_t bytes, unsigned char content)
      : context_(context), bytes_(bytes), arena_(context, bytes + 2 * guard, "a test") {
    std::vector<unsigned char> filled(bytes + 2 * guard, guard_byte);
    std::fill_n(filled.begin() + guard, bytes, content);
    copy_to_device(context_, filled.data(), filled.size(), arena_.data());
  }
  std::byte* data() const { return arena_.data() + guard; }
  bool intact() const {
    std::vector<unsigned char> all(bytes_ + 2 * guard);
    copy_to_host(context_, arena_.data(), all.size(), all.data());
    const auto untouched = [](unsigned char byte) { return byte == guard_byte; };
    return std::all_of(all.begin(), all.begin() + guard, untouched) &&
           std::all_of(all.end() - guard, all.end(), untouched);
  }

 private:
  static constexpr std::ptrdiff_t guard = 256;
  static constexpr unsigned char guard_byte = 0xa5;
  AnyContext& context_;
  std::size_t bytes_;
  Arena arena_;
};

/// Every piece of device memory of one run.
class Workbench {
 public:
  Workbench(AnyContext& context, unsigned char content) : context_(context), content_(content) {}

  std::byte* memory(std::size_t bytes) {
    return pieces_.emplace_back(context_, bytes, content_).data();
  }
  Tensor tensor(const Shape& shape, DType dtype) {
    return {memory(static_cast<std::size_t>(shape.elements()) * size_of(dtype)), shape, dtype};
  }
  Tensor tensor(const Shape& shape, DType dtype, const std::vector<float>& values) {
    const Tensor made = tensor(shape, dtype);
    set(made, values);
    return made;
  }
  void set(const Tensor& tensor, const std::vector<float>& values) {
    Arena staging(context_, values.size() * sizeof(float), "a test");
    copy_to_device(context_, values.data(), values.size() * sizeof(float), staging.data());
    convert(context_, Tensor(staging.data(), tensor.shape()), tensor);
    synchronize(context_);
  }
  void spoil(const Tensor& tensor) {
    const std::vector<unsigned char> rubbish(tensor.bytes(), content_);
    copy_to_device(context_, rubbish.data(), rubbish.size(), tensor.raw());
  }
  std::vector<float> values_of(const Tensor& tensor) const {
    if (!tensor.defined()) return {};
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    Arena staging(context_, values.size() * sizeof(float), "a test");
    convert(context_, tensor, Tensor(staging.data(), tensor.shape()));
    copy_to_host(context_, staging.data(), values.size() * sizeof(float), values.data());
    return values;
  }
  std::vector<std::vector<float>> values_of(const std::vector<Tensor>& tensors) const {
    std::vector<std::vector<float>> values;
    for (const Tensor& tensor : tensors) values.push_back(values_of(tensor));
    return values;
  }
  bool intact() const {
    return std::ranges::all_of(pieces_, [](const auto& piece) { return piece.intact(); });
  }

 private:
  AnyContext& context_;
  unsigned char content_;
  std::deque<GuardedDeviceMemory> pieces_;
};

template <typename Spec>
std::vector<Tensor> tensors_of(Workbench& bench, const std::vector<Spec>& specs, DType dtype,
                               const std::vector<std::vector<float>>* values) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    tensors.push_back(values == nullptr ? bench.tensor(specs[i].shape, dtype)
                                        : bench.tensor(specs[i].shape, dtype, (*values)[i]));
  }
  return tensors;
}

}  // namespace

std::vector<float> rounded(AnyContext& context, const std::vector<float>& values, DType dtype) {
  Workbench bench(context, 0);
  return bench.values_of(bench.tensor({static_cast<std::int64_t>(values.size())}, dtype, values));
}

KernelResult run_cuda_kernel(AnyContext& context, const Layer& layer, const KernelData& data,
                             const CudaMode& mode) {
  Workbench bench(context, mode.content);
  const DType dtype = activation_dtype(mode.precision);
  const Shape output = layer.output_shape(data.input_shapes);
  const auto specs = layer.parameters(data.input_shapes);
  const auto kernel = layer.prepare(context, {.inputs = data.input_shapes,
                                              .output = output,
                                              .training = mode.training,
                                              .precision = mode.precision,
                                              .input_gradients = mode.wanted,
                                              .adds = mode.adds,
                                              .name = test_layer_name,
                                              .fixed_statistics = mode.fixed_statistics,
                                              .batch_groups = mode.groups,
                                              .norm_kernels = mode.norm_kernels});
  const KernelMemory sizes = kernel->memory();
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    inputs.push_back(bench.tensor(data.input_shapes[i], dtype, data.inputs[i]));
  }
  const auto before = bench.values_of(inputs);
  const auto parameters = tensors_of(bench, specs, DType::f32, &data.parameters);
  const auto weights = tensors_of(bench, specs, dtype, &data.parameters);
  const RankBuffers buffers(layer.buffers(data.input_shapes), data.buffers,
                            mode.training ? mode.groups : 1,
                            [&](const Shape& shape, const auto& values) {
                              return bench.tensor(shape, DType::f32, values);
                            });
  const Tensor y = bench.tensor(output, dtype);
  std::byte* saved = bench.memory(sizes.saved);
  kernel->forward({.inputs = inputs,
                   .output = y,
                   .parameters = parameters,
                   .weights = weights,
                   .buffers = buffers.first(),
                   .buffers_apart = buffers.apart(),
                   .saved = saved,
                   .scratch = bench.memory(sizes.forward_scratch),
                   .random = mode.training ? test_random : StepRandom{}});
  KernelResult result{.output = bench.values_of(y),
                      .buffers = buffers.of_ranks(bench.values_of(buffers.pieces()))};
  result.inputs_untouched = bench.values_of(inputs) == before;
  if (mode.training) {
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      gradients.push_back(mode.wanted[i] ? bench.tensor(data.input_shapes[i], dtype) : Tensor());
      if (!mode.adds.empty() && mode.adds[i] && mode.wanted[i]) {
        bench.set(gradients[i], gradient_before(data.inputs[i].size()));
      }
    }
    const BackwardNeeds needs = layer.backward_needs();
    if (!needs.output || !kernel->reads_output()) bench.spoil(y);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!needs.input(i)) bench.spoil(inputs[i]);
    }
    const auto parameter_gradients = tensors_of(bench, specs, DType::f32, nullptr);
    kernel->backward({.inputs = inputs,
                      .output = y,
                      .output_gradient = bench.tensor(output, dtype, data.output_gradient),
                      .input_gradients = gradients,
                      .parameters = parameters,
                      .weights = weights,
                      .parameter_gradients = parameter_gradients,
                      .saved = saved,
                      .handed_on = bench.memory(sizes.handed_on),
                      .scratch = bench.memory(sizes.backward_scratch)});
    result.input_gradients = bench.values_of(gradients);
    result.parameter_gradients = bench.values_of(parameter_gradients);
  }
  result.guards_intact = bench.intact() && bench.values_of(parameters) == data.parameters;
  return result;
}

}  // namespace tandem
