#include "layers/normalisation/batch_norm_cuda.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "device/arena.h"
#include "device/cuda_context.h"
#include "device/memory_kernels.h"
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

/// Whether statistics are those of a batch.
bool has_batch_statistics(const CudaBatchNorm::Setup& setup) {
  return setup.training && !setup.fixed_statistics;
}

/// Where one kernel does: the statistics are the batch's, of this rank alone.
std::optional<ResidentTiles> resident_tiles(const CudaContext& context,
                                            const CudaBatchNorm::Setup& setup) {
  if (!has_batch_statistics(setup) || setup.ranks != nullptr) return std::nullopt;
  return make_resident_tiles(setup.shape, static_cast<int>(size_of(setup.dtype)),
                             batch_norm_clusters(context));
}

/// Where one kernel is faster forward than two, which read what they find in memory more quickly:
/// where it keeps enough of a tensor that is not resident. Measured; so is that backward, where it
/// would keep two tensors, it gains nothing beside weights' gradients of other layers.
std::optional<PersistentTiles> persistent_tiles(const CudaContext& context,
                                                const CudaBatchNorm::Setup& setup) {
  constexpr double least_kept = 0.4;
  if (!has_batch_statistics(setup) || setup.ranks != nullptr || setup.joins || setup.defers ||
      setup.second_is_left || resident_tiles(context, setup)) {
    return std::nullopt;
  }
  const auto tiles = make_persistent_tiles(context, setup.shape, setup.dtype);
  return tiles && tiles->kept() >= least_kept ? tiles : std::nullopt;
}

}  // namespace

bool CudaBatchNorm::sums_apart(const CudaContext& context, const Setup& setup) {
  if (!has_batch_statistics(setup)) return false;
  if (setup.defers || setup.second_is_left) return true;
  return !resident_tiles(context, setup) && !persistent_tiles(context, setup);
}

CudaBatchNorm::CudaBatchNorm(CudaContext& context, const Setup& setup)
    : context_(&context), setup_(setup) {
  if (!setup_.training) return;
  if (setup_.fixed_statistics) setup_.ranks = nullptr;
  if (setup_.ranks != nullptr) {
    setup_.ranks->reserve(static_cast<std::size_t>(2 * setup_.shape.channels));
  }
  resident_ = resident_tiles(context, setup_);
  resident_forward_ = resident_ && !setup_.second_is_left;
  saves_passes_ = setup_.behind_sum && !resident_ &&
                  passes_are_bits(*setup_.behind_sum, size_of(setup_.dtype), setup_.shape.channels);
  partial_bytes_ = batch_norm_partial_bytes(context, setup_.shape, setup_.dtype);
  std::size_t counters = batch_norm_counters(context, setup_.shape, setup_.dtype);
  if (setup_.product) {
    partial_bytes_ =
        std::max(partial_bytes_, Arena::align(setup_.product->partials() * sizeof(float)));
    counters = std::max(counters, setup_.product->counters());
  }
  if (resident_) counters = std::max(counters, static_cast<std::size_t>(resident_->tiles));
  if (!setup_.product) persistent_ = persistent_tiles(context, setup_);
  if (persistent_) {
    partial_bytes_ =
        std::max(partial_bytes_, Arena::align(persistent_->partials() * sizeof(float)));
    counters = std::max(counters, persistent_->counters());
  }
  const std::size_t bytes = counters * sizeof(unsigned);
  counters_ = static_cast<unsigned*>(context.allocate(bytes));
  set_to_zero(context, counters_, bytes);
}

CudaBatchNorm::~CudaBatchNorm() {
  if (counters_ != nullptr) context_->deallocate(counters_);
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
  return has_batch_statistics(setup_) ? partial_bytes_ + rank_bytes() : 0;
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
  const BatchNormStatistics statistics{
      .weight = args.weight.data<float>(),
      .bias = args.bias.data<float>(),
      .running_mean = args.running_mean.data<float>(),
      .running_variance = args.running_variance.data<float>(),
      .table = BatchNormTable::at(setup_.training ? args.saved : args.scratch, setup_.shape),
      .rows = all_rows(),
      .epsilon = setup_.options.epsilon,
      .momentum = setup_.options.momentum};
  const bool deferred = !args.y.defined();
  if (resident_forward_ && !deferred && aligned(args.x, args.second, args.y)) {
    batch_norm_resident_forward(*context_, *resident_,
                                {.x = args.x,
                                 .use = args.use,
                                 .second = args.second,
                                 .activation = args.activation,
                                 .y = args.y},
                                statistics);
    return;
  }
  if (persistent_ && !deferred && aligned(args.x, args.second, args.y)) {
    batch_norm_persistent_forward(*context_, *persistent_, args.x, args.second, args.activation,
                                  args.y, passes_in(args.saved), statistics,
                                  {.partials = args.scratch, .counters = counters_});
    return;
  }
  if (has_batch_statistics(setup_)) {
    sum_statistics(args, statistics);
  } else {
    batch_norm_running_table(*context_, setup_.shape.channels, statistics);
  }
  if (deferred) return;
  if (args.use == SecondInput::joined) {
    batch_norm_join(*context_, setup_.shape, args.x, statistics.table, args.activation, args.second,
                    args.y);
  } else {
    batch_norm_apply(*context_, setup_.shape, args.x, statistics.table,
                     {.tensor = args.second, .norm = args.second_norm}, args.activation, args.y,
                     passes_in(args.saved));
  }
}

void CudaBatchNorm::sum_statistics(const Forward& args, const BatchNormStatistics& statistics) {
  auto* sums =
      setup_.ranks == nullptr ? nullptr : reinterpret_cast<double*>(args.scratch + partial_bytes_);
  const BatchNormWork work{.partials = args.scratch, .counters = counters_, .rank_sums = sums};
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
  if (resident_ &&
      aligned(args.x, args.y, args.output_gradient, args.second_gradient, args.input_gradient)) {
    batch_norm_resident_backward(*context_, *resident_,
                                 {.x = args.x,
                                  .y = args.y,
                                  .output_gradient = args.output_gradient,
                                  .activation = args.activation,
                                  .use = args.use,
                                  .second_gradient = args.second_gradient,
                                  .input_gradient = args.input_gradient},
                                 gradients, counters_);
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
  const BatchNormWork work{.partials = args.scratch, .counters = counters_, .rank_sums = sums};
  if (args.use == SecondInput::joined) {
    // By itself, behind the activation, where the second pass overwrites it.
    batch_norm_sum_joined_gradients(*context_, setup_.shape, args.x, args.output_gradient,
                                    args.activation, args.second_gradient, args.input_gradient,
                                    gradients, work);
    return {.gradient = args.input_gradient};
  }
  const bool wanted = args.second_gradient.defined();
  if (args.use == SecondInput::none || (!wanted && args.activation == Activation::none)) {
    batch_norm_sum_gradients(*context_, setup_.shape, args.x, args.output_gradient, args.activation,
                             gradients, work);
    return {.gradient = args.output_gradient, .left = args.activation};
  }
  // Behind a residual the derivative takes a tensor to read, so the gradient behind the activation
  // is kept: as the residual's gradient, which it is, else where the output's gradient was.
  const Tensor dz = wanted ? args.second_gradient : args.output_gradient;
  batch_norm_sum_residual_gradients(*context_, setup_.shape, args.x, args.y, passes_in(args.saved),
                                    args.output_gradient, args.activation, dz, gradients, work);
  return {.gradient = dz};
}

namespace {

class BatchNormCudaKernel : public LayerKernel {
 public:
  BatchNormCudaKernel(CudaContext& context, const BatchNormOptions& options,
                      const KernelRequest& request)
      : norm_(context, {.shape = batch_norm_shape(request),
                        .options = options,
                        .dtype = request.dtype(),
                        .training = request.training,
                        .fixed_statistics = request.fixed_statistics,
                        .ranks = request.rank_sum}) {}

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
  CudaBatchNorm norm_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_batch_norm_kernel(CudaContext& context,
                                                    const BatchNormOptions& options,
                                                    const KernelRequest& request) {
  return std::make_unique<BatchNormCudaKernel>(context, options, request);
}

}  // namespace tandem
