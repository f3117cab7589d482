#include "layers/normalisation/batch_norm_cpu.h"

#include <algorithm>
#include <cmath>

#include "device/arena.h"
#include "layers/activation_cpu.h"

namespace tandem {
namespace {

constexpr std::int64_t max_blocks = 64;
/// Rows summed in float before they go to double.
constexpr std::int64_t flush_rows = 128;

/// Rows cut into blocks whose number depends on the shape alone.
struct Blocks {
  explicit Blocks(const BatchNormShape& shape)
      : rows(shape.rows), count(std::clamp<std::int64_t>(shape.rows / flush_rows, 1, max_blocks)) {}
  std::int64_t begin(std::int64_t block) const { return rows * block / count; }
  std::int64_t rows;
  std::int64_t count;
};

/// Per block: two double sums and two float accumulators of each channel.
struct Partial {
  double* first;
  double* second;
  float* running_first;
  float* running_second;
};

std::size_t partial_bytes(std::int64_t channels) {
  return Arena::align(static_cast<std::size_t>(channels) *
                      (2 * sizeof(double) + 2 * sizeof(float)));
}

Partial partial(std::byte* scratch, std::int64_t channels, std::int64_t block) {
  auto* first = reinterpret_cast<double*>(scratch + partial_bytes(channels) *
                                                        static_cast<std::size_t>(block));
  auto* running = reinterpret_cast<float*>(first + 2 * channels);
  return {first, first + channels, running, running + channels};
}

/// Sums two quantities per channel over rows [begin, end): `add(row, first, second)` adds one row
/// to float accumulators, which are moved to double often enough to stay exact to float rounding.
template <typename AddRow>
void sum_rows(const Partial& part, std::int64_t channels, std::int64_t begin, std::int64_t end,
              AddRow&& add) {
  std::fill_n(part.first, 2 * channels, 0.0);
  for (std::int64_t at = begin; at < end; at += flush_rows) {
    std::fill_n(part.running_first, 2 * channels, 0.0F);
    const std::int64_t stop = std::min(end, at + flush_rows);
    for (std::int64_t row = at; row < stop; ++row) {
      add(row, part.running_first, part.running_second);
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      part.first[c] += static_cast<double>(part.running_first[c]);
      part.second[c] += static_cast<double>(part.running_second[c]);
    }
  }
}

/// The blocks' sums added up in order, into block 0.
Partial combine(std::byte* scratch, std::int64_t channels, std::int64_t blocks) {
  const Partial total = partial(scratch, channels, 0);
  for (std::int64_t block = 1; block < blocks; ++block) {
    const Partial part = partial(scratch, channels, block);
    for (std::int64_t c = 0; c < 2 * channels; ++c) total.first[c] += part.first[c];
  }
  return total;
}

/// Each rank has a first row of its own, so what travels are sums of x and x^2, in double: with
/// floats for x there is no mean so far from zero that their difference would be lost.
void sum_over_ranks(RankSum& ranks, std::int64_t channels, double rows, const float* pivot,
                    const Partial& total) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto shift = static_cast<double>(pivot[c]);
    total.second[c] += shift * (2.0 * total.first[c] + rows * shift);
    total.first[c] += rows * shift;
  }
  ranks.sum({total.first, static_cast<std::size_t>(2 * channels)});
}

/// Behind the blocks' sums: three floats of each channel.
float* coefficients(const BatchNormShape& shape, std::byte* scratch) {
  return reinterpret_cast<float*>(scratch + partial_bytes(shape.channels) *
                                                static_cast<std::size_t>(Blocks(shape).count));
}

}  // namespace

std::size_t batch_norm_scratch(const BatchNormShape& shape) {
  const std::size_t coefficients = 3 * static_cast<std::size_t>(shape.channels) * sizeof(float);
  return partial_bytes(shape.channels) * static_cast<std::size_t>(Blocks(shape).count) +
         coefficients;
}

void batch_norm_statistics(CpuContext& context, const BatchNormShape& shape,
                           const BatchNormOptions& options, const float* x, float* mean,
                           float* inverse_deviation, float* running_mean, float* running_variance,
                           RankSum* ranks, std::byte* scratch) {
  const Blocks blocks(shape);
  const std::int64_t channels = shape.channels;
  // Sums are of x minus the first row: without the shift, a mean far from zero would cancel in
  // E[x^2] - E[x]^2.
  const float* pivot = x;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    sum_rows(partial(scratch, channels, block), channels, blocks.begin(block),
             blocks.begin(block + 1),
             [&](std::int64_t row, float* __restrict first, float* __restrict second) {
               const float* __restrict in = x + row * channels;
               for (std::int64_t c = 0; c < channels; ++c) {
                 const float d = in[c] - pivot[c];
                 first[c] += d;
                 second[c] += d * d;
               }
             });
  }
  const Partial total = combine(scratch, channels, blocks.count);
  auto n = static_cast<double>(shape.rows);
  if (ranks != nullptr) {
    sum_over_ranks(*ranks, channels, n, pivot, total);
    n *= ranks->ranks();
  }
  const double unbiased = n > 1.0 ? n / (n - 1.0) : 1.0;
  const auto momentum = static_cast<double>(options.momentum);
  const auto blend = [&](float old, double batch) {
    return static_cast<float>((1.0 - momentum) * static_cast<double>(old) + momentum * batch);
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    const double shifted = total.first[c] / n;
    const double variance = std::max(0.0, total.second[c] / n - shifted * shifted);
    const double center = (ranks == nullptr ? static_cast<double>(pivot[c]) : 0.0) + shifted;
    mean[c] = static_cast<float>(center);
    inverse_deviation[c] =
        static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(options.epsilon)));
    running_mean[c] = blend(running_mean[c], center);
    running_variance[c] = blend(running_variance[c], variance * unbiased);
  }
}

namespace {

template <Activation A>
void apply_rows(CpuContext& context, const BatchNormShape& shape, const float* x,
                const float* scale, const float* shift, const float* residual, float* y) {
  const std::int64_t channels = shape.channels;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float* in = x + row * channels;
    float* out = y + row * channels;
    if (residual != nullptr) {
      const float* add = residual + row * channels;
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        out[c] = activate<A>(in[c] * scale[c] + shift[c] + add[c]);
      }
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) {
        out[c] = activate<A>(in[c] * scale[c] + shift[c]);
      }
    }
  }
}

}  // namespace

void batch_norm_apply(CpuContext& context, const BatchNormShape& shape, const float* x,
                      const float* scale, const float* shift, const float* residual,
                      Activation activation, float* y) {
  with_activation(activation, [&](auto chosen) {
    apply_rows<decltype(chosen)::value>(context, shape, x, scale, shift, residual, y);
  });
}

namespace {

/// First pass: sums of dz and dz (x - mean), with dz the gradient behind the fused activation;
/// stores dz as the residual's gradient where there is one. An activation that needs its input,
/// scale x + shift, stores dz over the gradient that came in: its derivative is too dear to take
/// twice.
template <Activation A>
void sum_gradients(const BatchNormBackward& a, std::int64_t channels, std::int64_t row,
                   const float* scale, const float* shift, float* __restrict first,
                   float* __restrict second) {
  const float* __restrict x = a.x + row * channels;
  float* dy = a.output_gradient + row * channels;
  const float* y = a.y == nullptr ? nullptr : a.y + row * channels;
  float* dz = a.residual_gradient == nullptr ? nullptr : a.residual_gradient + row * channels;
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    float g = dy[c];
    if constexpr (derivative_needs_input(A)) {
      g = activation_gradient<A>(x[c] * scale[c] + shift[c], g);
      dy[c] = g;
    } else if constexpr (A != Activation::none) {
      g = activation_gradient<A>(y[c], g);
    }
    first[c] += g;
    second[c] += g * (x[c] - a.mean[c]);
    if (dz != nullptr) dz[c] = g;
  }
}

/// Second pass over one row: dx = weight/deviation (dz - mean(dz) - xhat mean(dz xhat)), written as
/// p dz + q x + r with per-channel p, q, r.
template <Activation A>
void write_gradients(const BatchNormBackward& a, std::int64_t channels, std::int64_t row,
                     const float* p, const float* q, const float* r) {
  const float* x = a.x + row * channels;
  const float* dy = a.output_gradient + row * channels;
  const float* y = a.y == nullptr ? nullptr : a.y + row * channels;
  float* dx = a.input_gradient + row * channels;
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    float g = dy[c];
    if constexpr (A != Activation::none && !derivative_needs_input(A)) {
      g = activation_gradient<A>(y[c], g);
    }
    dx[c] = p[c] * g + q[c] * x[c] + r[c];
  }
}

/// Of the first group, whose parameters' gradients are overwritten, or of a later one, whose are
/// added to them.
template <Activation A>
void backward_rows(CpuContext& context, const BatchNormShape& shape, const BatchNormBackward& args,
                   bool first_group, std::byte* scratch) {
  const Blocks blocks(shape);
  const std::int64_t channels = shape.channels;
  float* p = coefficients(shape, scratch);
  float* q = p + channels;
  float* r = q + channels;
  if constexpr (derivative_needs_input(A)) {
    // Scale and shift of the forward pass, until p and q take their place.
    batch_norm_fold(channels, args.weight, args.bias, args.mean, args.inverse_deviation, p, q);
  }
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    sum_rows(partial(scratch, channels, block), channels, blocks.begin(block),
             blocks.begin(block + 1), [&](std::int64_t row, float* first, float* second) {
               sum_gradients<A>(args, channels, row, p, q, first, second);
             });
  }
  const Partial total = combine(scratch, channels, blocks.count);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto bias = static_cast<float>(total.first[c]);
    const auto weight =
        static_cast<float>(total.second[c] * static_cast<double>(args.inverse_deviation[c]));
    args.bias_gradient[c] = first_group ? bias : args.bias_gradient[c] + bias;
    args.weight_gradient[c] = first_group ? weight : args.weight_gradient[c] + weight;
  }
  auto n = static_cast<double>(shape.rows);
  if (args.fixed_statistics) {
    // They do not move with x, so nothing comes back through them.
    std::fill_n(total.first, 2 * channels, 0.0);
  } else if (args.ranks != nullptr) {
    args.ranks->sum({total.first, static_cast<std::size_t>(2 * channels)});
    n *= args.ranks->ranks();
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto deviation = static_cast<double>(args.inverse_deviation[c]);
    const double sum = total.first[c];
    const double product = total.second[c];
    const double scale = static_cast<double>(args.weight[c]) * deviation;
    const double slope = -scale * deviation * deviation * product / n;
    p[c] = static_cast<float>(scale);
    q[c] = static_cast<float>(slope);
    r[c] = static_cast<float>(-scale * sum / n - slope * static_cast<double>(args.mean[c]));
  }
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    write_gradients<A>(args, channels, row, p, q, r);
  }
}

/// `offset` elements further on; null stays null.
template <typename T>
T* later(T* memory, std::int64_t offset) {
  return memory == nullptr ? nullptr : memory + offset;
}

BatchNormBackward of_group(const BatchNormShape& shape, BatchNormBackward args,
                           std::int64_t group) {
  const std::int64_t offset = group * shape.elements();
  args.x += offset;
  args.y = later(args.y, offset);
  args.output_gradient += offset;
  args.residual_gradient = later(args.residual_gradient, offset);
  args.input_gradient += offset;
  args.mean += group * shape.channels;
  args.inverse_deviation += group * shape.channels;
  return args;
}

}  // namespace

void batch_norm_forward(CpuContext& context, const BatchNormShape& shape,
                        const BatchNormOptions& options, const BatchNormForward& args,
                        std::byte* scratch) {
  auto* scale = coefficients(shape, scratch);
  float* shift = scale + shape.channels;
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    const std::int64_t offset = group * shape.elements();
    float* mean = args.mean + group * shape.channels;
    float* deviation = args.inverse_deviation + group * shape.channels;
    if (args.fixed_statistics) {
      std::copy_n(args.running_mean, shape.channels, mean);
      batch_norm_inverse_deviation(shape.channels, args.running_variance, options.epsilon,
                                   deviation);
    } else {
      const std::int64_t apart = group * args.running_apart;
      batch_norm_statistics(context, shape, options, args.x + offset, mean, deviation,
                            args.running_mean + apart, args.running_variance + apart, args.ranks,
                            scratch);
    }
    batch_norm_fold(shape.channels, args.weight, args.bias, mean, deviation, scale, shift);
    batch_norm_apply(context, shape, args.x + offset, scale, shift, later(args.residual, offset),
                     args.activation, args.y + offset);
  }
}

void batch_norm_backward(CpuContext& context, const BatchNormShape& shape,
                         const BatchNormBackward& args, std::byte* scratch) {
  with_activation(args.activation, [&](auto chosen) {
    for (std::int64_t group = 0; group < shape.groups; ++group) {
      backward_rows<decltype(chosen)::value>(context, shape, of_group(shape, args, group),
                                             group == 0, scratch);
    }
  });
}

void batch_norm_fold(std::int64_t channels, const float* weight, const float* bias,
                     const float* mean, const float* inverse_deviation, float* scale,
                     float* shift) {
  for (std::int64_t c = 0; c < channels; ++c) {
    scale[c] = weight[c] * inverse_deviation[c];
    shift[c] = bias[c] - mean[c] * scale[c];
  }
}

void batch_norm_inverse_deviation(std::int64_t channels, const float* running_variance,
                                  float epsilon, float* inverse_deviation) {
  for (std::int64_t c = 0; c < channels; ++c) {
    inverse_deviation[c] = 1.0F / std::sqrt(running_variance[c] + epsilon);
  }
}

namespace {

class BatchNormCpuKernel : public LayerKernel {
 public:
  BatchNormCpuKernel(CpuContext& context, const BatchNormOptions& options,
                     const KernelRequest& request)
      : context_(&context),
        options_(options),
        training_(request.training),
        fixed_(request.fixed_statistics),
        ranks_(fixed_ ? nullptr : request.rank_sum),
        shape_(batch_norm_shape(request)) {
    if (ranks_ != nullptr) ranks_->reserve(static_cast<std::size_t>(2 * shape_.channels));
  }

  KernelMemory memory() const override {
    const auto floats = static_cast<std::size_t>(2 * shape_.channels) * sizeof(float);
    if (!training_) return {.forward_scratch = floats};
    return {.saved = floats * static_cast<std::size_t>(shape_.groups),
            .forward_scratch = batch_norm_scratch(shape_),
            .backward_scratch = batch_norm_scratch(shape_)};
  }

  void forward(const ForwardArgs& args) override {
    const auto* x = args.inputs[0].data<float>();
    const auto* weight = args.parameters[0].data<float>();
    const auto* bias = args.parameters[1].data<float>();
    auto* running_mean = args.buffers[0].data<float>();
    auto* running_variance = args.buffers[1].data<float>();
    auto* y = args.output.data<float>();
    if (training_) {
      auto* mean = reinterpret_cast<float*>(args.saved);
      batch_norm_forward(*context_, shape_, options_,
                         {.x = x,
                          .y = y,
                          .weight = weight,
                          .bias = bias,
                          .running_mean = running_mean,
                          .running_variance = running_variance,
                          .running_apart = args.buffers_apart,
                          .mean = mean,
                          .inverse_deviation = mean + shape_.groups * shape_.channels,
                          .ranks = ranks_,
                          .fixed_statistics = fixed_},
                         args.scratch);
      return;
    }
    auto* scale = reinterpret_cast<float*>(args.scratch);
    float* shift = scale + shape_.channels;
    batch_norm_inverse_deviation(shape_.channels, running_variance, options_.epsilon, shift);
    // `shift` holds the deviation until its element is replaced.
    batch_norm_fold(shape_.channels, weight, bias, running_mean, shift, scale, shift);
    batch_norm_apply(*context_, shape_, x, scale, shift, nullptr, Activation::none, y);
  }

  void backward(const BackwardArgs& args) override {
    const auto* mean = reinterpret_cast<const float*>(args.saved);
    auto* gradient = args.output_gradient.data<float>();
    const bool wanted = args.input_gradients[0].defined();
    batch_norm_backward(
        *context_, shape_,
        {.x = args.inputs[0].data<float>(),
         .mean = mean,
         .inverse_deviation = mean + shape_.groups * shape_.channels,
         .weight = args.parameters[0].data<float>(),
         .output_gradient = gradient,
         .input_gradient = wanted ? args.input_gradients[0].data<float>() : gradient,
         .weight_gradient = args.parameter_gradients[0].data<float>(),
         .bias_gradient = args.parameter_gradients[1].data<float>(),
         .ranks = ranks_,
         .fixed_statistics = fixed_},
        args.scratch);
  }

 private:
  CpuContext* context_;
  BatchNormOptions options_;
  bool training_;
  bool fixed_;
  RankSum* ranks_;
  BatchNormShape shape_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_batch_norm_kernel(CpuContext& context,
                                                    const BatchNormOptions& options,
                                                    const KernelRequest& request) {
  return std::make_unique<BatchNormCpuKernel>(context, options, request);
}

}  // namespace tandem
