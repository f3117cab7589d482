#include "layers/normalisation/batch_norm_cuda.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "device/arena.h"
#include "device/cuda_context.h"
#include "layers/normalisation/batch_norm_choice_cuda.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"

namespace tandem {
namespace {

std::size_t channel_bytes(std::int64_t channels, std::size_t each) {
  return Arena::align(static_cast<std::size_t>(channels) * each);
}

/// For 16-byte accesses; undefined tensors are.
template <typename... Tensors>
bool aligned(const Tensors&... tensors) {
  return ((reinterpret_cast<std::uintptr_t>(tensors.raw()) % 16 == 0) && ...);
}

}  // namespace

CudaBatchNorm::CudaBatchNorm(CudaContext& context, const BatchNormSetup& setup)
    : context_(&context), setup_(setup) {
  if (!setup_.training) return;
  if (setup_.fixed_statistics) setup_.ranks = nullptr;
  if (setup_.ranks != nullptr) {
    setup_.ranks->reserve(static_cast<std::size_t>(2 * setup_.shape.channels));
  }
  way_ = setup_.way.value_or(batch_norm_ways(context, setup_).front());
  TANDEM_CHECK(!setup_.product || way_.forward == NormForward::two_kernels,
               "a product's statistics are of no use to one kernel");
  saves_passes_ = setup_.use == SecondInput::residual && !way_.resident_backward &&
                  way_.forward != NormForward::resident &&
                  passes_are_bits(setup_.activation, size_of(setup_.dtype), setup_.shape.channels);
  partial_bytes_ = batch_norm_partial_bytes(context, setup_.shape, setup_.dtype);
  std::size_t counters = batch_norm_counters(context, setup_.shape, setup_.dtype);
  if (setup_.product) {
    partial_bytes_ =
        std::max(partial_bytes_, Arena::align(setup_.product->partials() * sizeof(float)));
    counters = std::max(counters, setup_.product->counters());
  }
  if (way_.forward == NormForward::resident || way_.resident_backward) {
    resident_ = resident_tiles_of(context, setup_);
    counters = std::max(counters, static_cast<std::size_t>(resident_.value().tiles));
  }
  if (way_.forward == NormForward::persistent) {
    persistent_ = persistent_tiles_of(context, setup_, 0.0);
    partial_bytes_ =
        std::max(partial_bytes_, Arena::align(persistent_.value().partials() * sizeof(float)));
    counters = std::max(counters, persistent_->counters());
  }
  counters_ = DeviceBuffer::zeroed(context, counters * sizeof(unsigned));
}

std::size_t CudaBatchNorm::saved() const {
  if (!setup_.training) return 0;
  const std::size_t table = BatchNormTable::bytes(setup_.shape);
  const std::int64_t elements = setup_.shape.elements() * setup_.shape.groups;
  return saves_passes_ ? table + Arena::align(static_cast<std::size_t>(elements / 8)) : table;
}

std::uint8_t* CudaBatchNorm::passes_in(std::byte* saved) const {
  return saves_passes_
             ? reinterpret_cast<std::uint8_t*>(saved + BatchNormTable::bytes(setup_.shape))
             : nullptr;
}

std::size_t CudaBatchNorm::rank_bytes() const {
  return setup_.ranks == nullptr ? 0 : channel_bytes(setup_.shape.channels, 2 * sizeof(double));
}

std::size_t CudaBatchNorm::forward_scratch() const {
  if (!setup_.training) return BatchNormTable::bytes(setup_.shape);
  return setup_.has_batch_statistics() ? partial_bytes_ + rank_bytes() : 0;
}

std::size_t CudaBatchNorm::backward_scratch() const {
  if (!setup_.training) return 0;
  return partial_bytes_ + rank_bytes() + group_bytes() + 2 * coefficient_bytes();
}

std::size_t CudaBatchNorm::group_bytes() const {
  const auto groups = static_cast<std::size_t>(setup_.shape.groups);
  return groups == 1 ? 0 : groups * channel_bytes(setup_.shape.channels, 2 * sizeof(double));
}

std::size_t CudaBatchNorm::coefficient_bytes() const {
  return static_cast<std::size_t>(setup_.shape.groups) *
         channel_bytes(setup_.shape.channels, sizeof(float));
}

double CudaBatchNorm::all_rows() const {
  const auto rows = static_cast<double>(setup_.shape.rows);
  return setup_.ranks == nullptr ? rows : rows * setup_.ranks->ranks();
}

void CudaBatchNorm::forward(const Forward& args) {
  TANDEM_CHECK(setup_.shape.groups == 1 || args.running_apart >= setup_.shape.channels,
               "running statistics of {} groups {} elements apart", setup_.shape.groups,
               args.running_apart);
  const BatchNormStatistics statistics{
      .weight = args.weight.data<float>(),
      .bias = args.bias.data<float>(),
      .running_mean = args.running_mean.data<float>(),
      .running_variance = args.running_variance.data<float>(),
      .running_apart = args.running_apart,
      .table = BatchNormTable::at(setup_.training ? args.saved : args.scratch, setup_.shape),
      .rows = all_rows(),
      .epsilon = setup_.options.epsilon,
      .momentum = setup_.options.momentum};
  const bool deferred = !args.y.defined();
  if (way_.forward == NormForward::resident && !deferred && aligned(args.x, args.second, args.y)) {
    batch_norm_resident_forward(*context_, *resident_,
                                {.x = args.x,
                                 .use = setup_.use,
                                 .second = args.second,
                                 .activation = setup_.activation,
                                 .y = args.y},
                                statistics);
    return;
  }
  if (persistent_ && !deferred && aligned(args.x, args.second, args.y)) {
    batch_norm_persistent_forward(*context_, *persistent_, args.x, args.second, setup_.activation,
                                  args.y, passes_in(args.saved), statistics,
                                  {.partials = args.scratch, .counters = counters_.as<unsigned>()});
    return;
  }
  if (setup_.has_batch_statistics()) {
    sum_statistics(args, statistics);
  } else {
    batch_norm_running_table(*context_, setup_.shape.channels, statistics);
  }
  if (deferred) return;
  if (setup_.use == SecondInput::joined) {
    batch_norm_join(*context_, setup_.shape, args.x, statistics.table, setup_.activation,
                    args.second, args.y);
  } else {
    batch_norm_apply(*context_, setup_.shape, args.x, statistics.table,
                     {.tensor = args.second, .norm = args.second_norm}, setup_.activation, args.y,
                     passes_in(args.saved));
  }
}

void CudaBatchNorm::sum_statistics(const Forward& args, const BatchNormStatistics& statistics) {
  auto* sums =
      setup_.ranks == nullptr ? nullptr : reinterpret_cast<double*>(args.scratch + partial_bytes_);
  const BatchNormWork work{
      .partials = args.scratch, .counters = counters_.as<unsigned>(), .rank_sums = sums};
  if (setup_.product) {
    TANDEM_CHECK(aligned(args.product_input, args.product_weight, args.x),
                 "a 1x1 convolution's tensors are not 16-byte aligned");
    pointwise_with_statistics(*context_, *setup_.product, args.product_input.raw(),
                              args.product_weight.raw(), args.x.raw(), statistics, work);
  } else {
    batch_norm_statistics(*context_, setup_.shape, args.x, statistics, work);
  }
  if (sums == nullptr) return;
  setup_.ranks->sum_on_device(sums, static_cast<std::size_t>(2 * setup_.shape.channels));
  batch_norm_finish_statistics(*context_, setup_.shape.channels, statistics, sums);
}

void CudaBatchNorm::backward(const Backward& args) {
  std::byte* at = args.scratch + partial_bytes_;
  auto* sums = setup_.ranks == nullptr ? nullptr : reinterpret_cast<double*>(at);
  at += rank_bytes();
  auto* shares = setup_.shape.groups == 1 ? nullptr : reinterpret_cast<double*>(at);
  at += group_bytes();
  const BatchNormGradients gradients{.table = BatchNormTable::at(args.saved, setup_.shape),
                                     .weight_gradient = args.weight_gradient.data<float>(),
                                     .bias_gradient = args.bias_gradient.data<float>(),
                                     .group_gradients = shares,
                                     .slope = reinterpret_cast<float*>(at),
                                     .offset = reinterpret_cast<float*>(at + coefficient_bytes()),
                                     .rows = all_rows(),
                                     .fixed_statistics = setup_.fixed_statistics};
  if (way_.resident_backward &&
      aligned(args.x, args.y, args.output_gradient, args.second_gradient, args.input_gradient)) {
    batch_norm_resident_backward(*context_, *resident_,
                                 {.x = args.x,
                                  .y = args.y,
                                  .output_gradient = args.output_gradient,
                                  .activation = setup_.activation,
                                  .use = setup_.use,
                                  .second_gradient = args.second_gradient,
                                  .input_gradient = args.input_gradient},
                                 gradients, counters_.as<unsigned>());
  } else {
    backward_in_two(args, gradients, sums);
  }
}

void CudaBatchNorm::backward_in_two(const Backward& args, const BatchNormGradients& gradients,
                                    double* sums) {
  const Summed summed = sum_gradients(args, gradients, sums);
  if (sums != nullptr) {
    setup_.ranks->sum_on_device(sums, static_cast<std::size_t>(2 * setup_.shape.channels));
    batch_norm_finish_gradients(*context_, setup_.shape.channels, gradients, sums);
  }
  if (!args.input_gradient.defined()) return;
  batch_norm_input_gradient(*context_, setup_.shape, args.x, summed.gradient, summed.left,
                            gradients, args.input_gradient);
}

CudaBatchNorm::Summed CudaBatchNorm::sum_gradients(const Backward& args,
                                                   const BatchNormGradients& gradients,
                                                   double* sums) {
  const BatchNormWork work{
      .partials = args.scratch, .counters = counters_.as<unsigned>(), .rank_sums = sums};
  if (setup_.use == SecondInput::joined) {
    // By itself, behind the activation, where the second pass overwrites it.
    batch_norm_sum_joined_gradients(*context_, setup_.shape, args.x, args.output_gradient,
                                    setup_.activation, args.second_gradient, args.input_gradient,
                                    gradients, work);
    return {.gradient = args.input_gradient};
  }
  const bool wanted = args.second_gradient.defined();
  if (setup_.use == SecondInput::none || (!wanted && setup_.activation == Activation::none)) {
    batch_norm_sum_gradients(*context_, setup_.shape, args.x, args.output_gradient,
                             setup_.activation, gradients, work);
    return {.gradient = args.output_gradient, .left = setup_.activation};
  }
  // Behind a residual the derivative takes a tensor to read, so the gradient behind the activation
  // is kept: as the residual's gradient, which it is, else where the output's gradient was.
  const Tensor dz = wanted ? args.second_gradient : args.output_gradient;
  batch_norm_sum_residual_gradients(*context_, setup_.shape, args.x, args.y, passes_in(args.saved),
                                    args.output_gradient, setup_.activation, dz, gradients, work);
  return {.gradient = dz};
}

namespace {

class BatchNormCudaKernel : public LayerKernel {
 public:
  BatchNormCudaKernel(CudaContext& context, const BatchNormOptions& options,
                      const KernelRequest& request)
      : norm_(context, setup_of(context, options, request)) {}

  KernelMemory memory() const override {
    return {.saved = norm_.saved(),
            .forward_scratch = norm_.forward_scratch(),
            .backward_scratch = norm_.backward_scratch()};
  }

  void forward(const ForwardArgs& args) override {
    norm_.forward({.x = args.inputs[0],
                   .y = args.output,
                   .weight = args.parameters[0],
                   .bias = args.parameters[1],
                   .running_mean = args.buffers[0],
                   .running_variance = args.buffers[1],
                   .running_apart = args.buffers_apart,
                   .saved = args.saved,
                   .scratch = args.scratch});
  }

  void backward(const BackwardArgs& args) override {
    norm_.backward({.x = args.inputs[0],
                    .output_gradient = args.output_gradient,
                    .input_gradient = args.input_gradients[0],
                    .weight_gradient = args.parameter_gradients[0],
                    .bias_gradient = args.parameter_gradients[1],
                    .saved = args.saved,
                    .scratch = args.scratch});
  }

 private:
  static BatchNormSetup setup_of(CudaContext& context, const BatchNormOptions& options,
                                 const KernelRequest& request) {
    BatchNormSetup setup{.shape = batch_norm_shape(request),
                         .options = options,
                         .dtype = request.dtype(),
                         .training = request.training,
                         .fixed_statistics = request.fixed_statistics,
                         .ranks = request.rank_sum};
    if (request.training) setup.way = choose_batch_norm_way(context, setup, request.norm_kernels);
    return setup;
  }

  CudaBatchNorm norm_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_batch_norm_kernel(CudaContext& context,
                                                    const BatchNormOptions& options,
                                                    const KernelRequest& request) {
  return std::make_unique<BatchNormCudaKernel>(context, options, request);
}

}  // namespace tandem
