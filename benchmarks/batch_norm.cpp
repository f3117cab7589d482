// Batch normalisation with ReLU, training, forward and backward: Tandem's NHWC kernels against
// oneDNN's primitive in NHWC and in its own blocked format, on one thread.
//
//   cmake --preset release -DTANDEM_BUILD_BENCHMARKS=ON
//   cmake --build build/release --target batch_norm_benchmark
//   build/release/bin/batch_norm_benchmark
//
// Arguments: batch, rows and columns, channels. bytes_per_second counts the least traffic: forward
// reads x twice and writes y, backward reads x, y and dy twice and writes dx.

#include <benchmark/benchmark.h>

#include <vector>

#include "device/onednn.h"
#include "layers/normalisation/batch_norm_cpu.h"

namespace tandem {
namespace {

struct Problem {
  std::int64_t batch, side, channels;
  std::int64_t elements() const { return batch * side * side * channels; }
  BatchNormShape shape() const { return {.rows = batch * side * side, .channels = channels}; }
};

Problem problem(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2)};
}

void count_bytes(benchmark::State& state, const Problem& p, std::int64_t passes) {
  state.SetBytesProcessed(state.iterations() * passes * p.elements() * 4);
}

using Floats = std::vector<float>;
Floats filled(std::int64_t count) {
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 97) * 0.02F - 1.0F;
  }
  return values;
}

void tandem_forward(benchmark::State& state) {
  const Problem p = problem(state);
  CpuContext context(1);
  const Floats x = filled(p.elements());
  Floats y(x.size());
  Floats small = filled(p.channels * 8);
  std::vector<std::byte> scratch(batch_norm_scratch(p.shape()));
  float* at = small.data();
  const auto next = [&] { return at += p.channels; };
  float* mean = at;
  float* deviation = next();
  float* scale = next();
  float* shift = next();
  float* running = next();
  float* variance = next();
  for (auto _ : state) {
    batch_norm_statistics(context, p.shape(), {}, x.data(), mean, deviation, running, variance,
                          nullptr, scratch.data());
    batch_norm_fold(p.channels, small.data(), small.data(), mean, deviation, scale, shift);
    batch_norm_apply(context, p.shape(), x.data(), scale, shift, nullptr, Activation::relu,
                     y.data());
  }
  count_bytes(state, p, 3);
}

void tandem_backward(benchmark::State& state) {
  const Problem p = problem(state);
  CpuContext context(1);
  const Floats x = filled(p.elements());
  const Floats y = filled(p.elements());
  Floats dy = filled(p.elements());
  Floats dx(x.size());
  Floats small = filled(p.channels * 5);
  std::vector<std::byte> scratch(batch_norm_scratch(p.shape()));
  const auto part = [&](std::int64_t i) { return small.data() + i * p.channels; };
  for (auto _ : state) {
    batch_norm_backward(context, p.shape(),
                        {.x = x.data(),
                         .activation = Activation::relu,
                         .y = y.data(),
                         .mean = part(0),
                         .inverse_deviation = part(1),
                         .weight = part(2),
                         .output_gradient = dy.data(),
                         .input_gradient = dx.data(),
                         .weight_gradient = part(3),
                         .bias_gradient = part(4)},
                        scratch.data());
  }
  count_bytes(state, p, 7);
}

/// oneDNN's batch normalisation with fused ReLU over its own memory.
class OneDnnNorm {
 public:
  OneDnnNorm(CpuContext& context, const Problem& p, dnnl::memory::format_tag tag)
      : context_(context) {
    using dnnl::memory;
    const dnnl::engine& engine = context.onednn().engine;
    const memory::desc data({p.batch, p.channels, p.side, p.side}, memory::data_type::f32, tag);
    const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift |
                       dnnl::normalization_flags::fuse_norm_relu;
    using Forward = dnnl::batch_normalization_forward;
    using Backward = dnnl::batch_normalization_backward;
#if DNNL_VERSION_MAJOR >= 3
    const Forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training, data, data,
                                          1e-5F, flags);
    const Backward::primitive_desc backward(engine, dnnl::prop_kind::backward, data, data, data,
                                            1e-5F, flags, forward);
#else
    const Forward::primitive_desc forward(
        Forward::desc(dnnl::prop_kind::forward_training, data, 1e-5F, flags), engine);
    const Backward::primitive_desc backward(
        Backward::desc(dnnl::prop_kind::backward, data, data, 1e-5F, flags), engine, forward);
#endif
    const memory::desc channels({p.channels}, memory::data_type::f32, memory::format_tag::x);
    const auto make = [&](const memory::desc& desc) { return memory(desc, engine); };
    const memory x = make(data);
    const memory mean = make(forward.mean_desc());
    const memory variance = make(forward.variance_desc());
    const memory scale = make(channels);
    const memory shift = make(channels);
    const memory mask = make(forward.workspace_desc());
    forward_ = Forward(forward);
    forward_arguments_ = {{DNNL_ARG_SRC, x},         {DNNL_ARG_DST, make(data)},
                          {DNNL_ARG_MEAN, mean},     {DNNL_ARG_VARIANCE, variance},
                          {DNNL_ARG_SCALE, scale},   {DNNL_ARG_SHIFT, shift},
                          {DNNL_ARG_WORKSPACE, mask}};
    backward_ = Backward(backward);
    backward_arguments_ = {{DNNL_ARG_SRC, x},
                           {DNNL_ARG_DIFF_DST, make(data)},
                           {DNNL_ARG_DIFF_SRC, make(data)},
                           {DNNL_ARG_MEAN, mean},
                           {DNNL_ARG_VARIANCE, variance},
                           {DNNL_ARG_SCALE, scale},
                           {DNNL_ARG_SHIFT, shift},
                           {DNNL_ARG_DIFF_SCALE, make(channels)},
                           {DNNL_ARG_DIFF_SHIFT, make(channels)},
                           {DNNL_ARG_WORKSPACE, mask}};
  }

  void forward() { forward_.execute(context_.onednn().stream, forward_arguments_); }
  void backward() { backward_.execute(context_.onednn().stream, backward_arguments_); }

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  CpuContext& context_;
  dnnl::primitive forward_, backward_;
  Arguments forward_arguments_, backward_arguments_;
};

template <dnnl::memory::format_tag tag>
void onednn_forward(benchmark::State& state) {
  CpuContext context(1);
  OneDnnNorm norm(context, problem(state), tag);
  for (auto _ : state) norm.forward();
  count_bytes(state, problem(state), 3);
}

template <dnnl::memory::format_tag tag>
void onednn_backward(benchmark::State& state) {
  CpuContext context(1);
  OneDnnNorm norm(context, problem(state), tag);
  norm.forward();
  for (auto _ : state) norm.backward();
  count_bytes(state, problem(state), 7);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({64, 28, 16})->Args({64, 14, 32})->Args({64, 32, 64})->Args({64, 4, 512});
}

constexpr auto nhwc = dnnl::memory::format_tag::nhwc;
constexpr auto blocked = dnnl::memory::format_tag::nChw8c;
BENCHMARK(tandem_forward)->Apply(shapes);
BENCHMARK_TEMPLATE(onednn_forward, nhwc)->Apply(shapes);
BENCHMARK_TEMPLATE(onednn_forward, blocked)->Apply(shapes);
BENCHMARK(tandem_backward)->Apply(shapes);
BENCHMARK_TEMPLATE(onednn_backward, nhwc)->Apply(shapes);
BENCHMARK_TEMPLATE(onednn_backward, blocked)->Apply(shapes);

}  // namespace
}  // namespace tandem
