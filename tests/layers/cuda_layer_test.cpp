#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "device/cuda_libraries.h"
#include "layers/convolution/conv2d.h"
#include "layers/convolution/pointwise_statistics.h"
#include "layers/cuda_kernel_run.h"
#include "layers/layer_cases.h"
#include "layers/normalisation/batch_norm_cuda.h"
#include "layers/normalisation/pointwise_statistics_cuda.h"
#include "layers/tuning/plan_tuner.h"

// Every layer on a CUDA device, in every precision, against the CPU's kernel on the same (rounded)
// values, which the other layer tests hold to the definitions.

namespace tandem {
namespace {

/// Sizes that fill a device and take its vector paths, for which the naive reference is too slow.
std::span<const LayerCase> large_cases() {
  static const std::vector<LayerCase> rows{
      {"conv2d", "large", "out=64\nkernel=3\npadding=1", {{8, 16, 16, 64}}},
      {"conv2d", "stem", "out=64\nkernel=7\nstride=2\npadding=3", {{4, 64, 64, 3}}},
      {"conv2d", "point_odd", "out=58\nkernel=1", {{4, 14, 14, 116}}},
      {"conv2d",
       "depthwise_58",
       "out=58\nkernel=3\nstride=2\npadding=1\ngroups=58",
       {{4, 28, 28, 58}}},
      {"conv2d", "depthwise_96", "out=96\nkernel=3\npadding=1\ngroups=96", {{3, 56, 56, 96}}},
      {"conv2d",
       "depthwise_five",
       "out=240\nkernel=5\nstride=2\npadding=2\ngroups=240",
       {{3, 28, 28, 240}}},
      {"conv_bn",
       "large_relu",
       "out=64\nkernel=3\npadding=1\nactivation=\"relu\"",
       {{16, 16, 16, 64}}},
      {"conv_bn",
       "large_add",
       "out=256\nkernel=1\nadd=true\nactivation=\"relu\"",
       {{8, 14, 14, 64}, {8, 14, 14, 256}}},
      {"conv_bn",
       "large_strided",
       "out=128\nkernel=3\nstride=2\npadding=1\nactivation=\"relu\"",
       {{8, 28, 28, 64}}},
      {"conv_bn",
       "depthwise_silu",
       "out=96\nkernel=5\npadding=2\ngroups=96\nactivation=\"silu\"",
       {{4, 14, 14, 96}}},
      {"conv_bn",
       "depthwise_relu6",
       "out=144\nkernel=3\nstride=2\npadding=1\ngroups=144\nactivation=\"relu6\"",
       {{4, 56, 56, 144}}},
      {"conv_bn",
       "add_relu_beyond_registers",
       "out=64\nkernel=1\nadd=true\nactivation=\"relu\"",
       {{8, 56, 56, 8}, {8, 56, 56, 64}}},
      {"conv_bn",
       "add_relu_partly_kept",
       "out=256\nkernel=1\nadd=true\nactivation=\"relu\"",
       {{96, 28, 28, 8}, {96, 28, 28, 256}}},
      {"conv_bn",
       "silu_beyond_registers",
       "out=40\nkernel=1\nactivation=\"silu\"",
       {{8, 56, 56, 8}}},
      {"conv_bn",
       "add_relu6_of_pairs",
       "out=58\nkernel=1\nadd=true\nactivation=\"relu6\"",
       {{32, 8, 8, 24}, {32, 8, 8, 58}}},
      // Normalised by the reader: strips cut into chunks, blocks of several tiles and lanes.
      {"conv_bn_pair",
       "relu6",
       pair_keys("kernel=1\nactivation=\"relu6\"", 144, "kernel=3\nstride=2\npadding=1"),
       {{4, 56, 56, 24}}},
      {"conv_bn_pair",
       "relu_58",
       pair_keys("kernel=1\nactivation=\"relu\"", 58, "kernel=3\npadding=1"),
       {{8, 28, 28, 58}}},
      {"conv_bn_pair",
       "stem_silu",
       pair_keys("kernel=3\nstride=2\npadding=1\nactivation=\"silu\"", 32, "kernel=3\npadding=1"),
       {{4, 112, 112, 3}}},
      {"conv_bn_pair",
       "five_silu",
       pair_keys("kernel=1\nactivation=\"silu\"", 240, "kernel=5\npadding=2"),
       {{4, 28, 28, 40}}},
      in_groups(4, {"conv_bn_pair",
                    "relu6",
                    pair_keys("kernel=1\nactivation=\"relu6\"", 96, "kernel=3\npadding=1"),
                    {{8, 56, 56, 16}}}),
      in_groups(2,
                {"conv_bn_pair",
                 "five_strided_relu6",
                 pair_keys("kernel=1\nactivation=\"relu6\"", 96, "kernel=5\nstride=2\npadding=2"),
                 {{6, 29, 27, 16}}}),
      {"batch_norm", "eight_blocks", "", {{128, 8, 8, 64}}},
      {"batch_norm", "half_sectors", "", {{16, 28, 28, 64}}},
      {"batch_norm", "pairs", "", {{96, 8, 8, 116}}},
      {"batch_norm", "one_pixel", "", {{128, 1, 1, 512}}},
      {"batch_norm", "large", "", {{32, 28, 28, 128}}},
      {"batch_norm", "many_channels", "", {{16, 7, 7, 2048}}},
      {"batch_norm", "odd_channels", "", {{16, 28, 28, 58}}},
      // Statistics of a group's own, in registers: several blocks, one, pairs, another number of
      // groups than a power of two.
      in_groups(4, {"batch_norm", "in_clusters", "", {{128, 8, 8, 64}}}),
      in_groups(4, {"batch_norm", "one_pixel", "", {{512, 1, 1, 512}}}),
      in_groups(2, {"batch_norm", "pairs", "", {{96, 8, 8, 116}}}),
      in_groups(3, {"batch_norm", "small", "", {{24, 8, 8, 64}}}),
      // In 16 bits more clusters than run at once.
      in_groups(4, {"batch_norm", "two_turns", "", {{4096, 1, 1, 640}}}),
      in_groups(2, {"batch_norm", "clusters_in_two_turns", "", {{64, 8, 8, 576}}}),
      // Of few rows, by small blocks: at once, in two turns, in pairs, of the second inputs.
      in_groups(8, {"batch_norm", "small_blocks", "", {{512, 1, 1, 960}}}),
      in_groups(8, {"batch_norm", "small_blocks_in_two_turns", "", {{128, 1, 1, 1280}}}),
      in_groups(4, {"batch_norm", "small_blocks_of_pairs", "", {{64, 2, 2, 1090}}}),
      in_groups(4, {"conv_bn",
                    "add_relu_small_blocks",
                    "out=640\nkernel=1\nadd=true\nactivation=\"relu\"",
                    {{16, 2, 2, 64}, {16, 2, 2, 640}}}),
      in_groups(4, {"conv_bn",
                    "join_small_blocks",
                    "out=640\nkernel=1\nactivation=\"relu\"\njoin=true",
                    {{16, 2, 2, 32}, {16, 2, 2, 1280}}}),
      in_groups(8, {"conv_bn",
                    "silu_small_blocks",
                    "out=576\nkernel=1\nactivation=\"silu\"",
                    {{64, 2, 2, 96}}}),
      // And too large for that; of 58 channels in packs, and in groups that packs do not fit.
      in_groups(4, {"batch_norm", "large", "", {{32, 28, 28, 128}}}),
      in_groups(2, {"batch_norm", "many_channels", "", {{16, 14, 14, 2048}}}),
      in_groups(4, {"batch_norm", "odd_channels", "", {{16, 28, 28, 58}}}),
      in_groups(4, {"batch_norm", "odd_rows", "", {{4, 27, 27, 58}}}),
      in_groups(4, {"batch_norm", "scalar", "", {{8, 28, 28, 83}}}),
      in_groups(4, {"conv_bn",
                    "add_relu",
                    "out=256\nkernel=1\nadd=true\nactivation=\"relu\"",
                    {{8, 14, 14, 64}, {8, 14, 14, 256}}}),
      in_groups(2, {"conv_bn",
                    "add_relu_beyond_registers",
                    "out=64\nkernel=1\nadd=true\nactivation=\"relu\"",
                    {{8, 56, 56, 8}, {8, 56, 56, 64}}}),
      in_groups(2, {"conv_bn",
                    "add_relu_beyond_turns",
                    "out=64\nkernel=1\nadd=true\nactivation=\"relu\"",
                    {{16, 56, 56, 8}, {16, 56, 56, 64}}}),
      in_groups(2, {"conv_bn",
                    "silu_beyond_registers",
                    "out=40\nkernel=1\nactivation=\"silu\"",
                    {{8, 56, 56, 8}}}),
      in_groups(2, {"conv_bn",
                    "depthwise_silu",
                    "out=96\nkernel=5\npadding=2\ngroups=96\nactivation=\"silu\"",
                    {{4, 14, 14, 96}}}),
      // Joined: in registers, in packs and in pairs, of several blocks and groups.
      {"conv_bn",
       "join_packs",
       "out=64\nkernel=1\nactivation=\"relu\"\njoin=true",
       {{16, 8, 8, 32}, {16, 8, 8, 128}}},
      {"conv_bn",
       "join_pairs",
       "out=58\nkernel=1\nactivation=\"relu\"\njoin=true",
       {{32, 8, 8, 24}, {32, 8, 8, 116}}},
      {"conv_bn", "join_equal", "out=64\nkernel=1\njoin=true", {{128, 8, 8, 8}, {128, 8, 8, 64}}},
      in_groups(4, {"conv_bn",
                    "join_pairs",
                    "out=116\nkernel=1\nactivation=\"relu\"\njoin=true",
                    {{96, 8, 8, 8}, {96, 8, 8, 232}}}),
      // And too large for that; with a tail, of groups that packs do not fit, element by element.
      {"conv_bn",
       "join_beyond_registers",
       "out=58\nkernel=1\nactivation=\"relu\"\njoin=true",
       {{7, 51, 51, 8}, {7, 51, 51, 116}}},
      {"conv_bn",
       "join_equal_beyond_registers",
       "out=64\nkernel=1\njoin=true",
       {{8, 56, 56, 8}, {8, 56, 56, 64}}},
      {"conv_bn",
       "join_odd_beyond_registers",
       "out=29\nkernel=1\nactivation=\"relu\"\njoin=true",
       {{7, 51, 51, 8}, {7, 51, 51, 87}}},
      in_groups(2, {"conv_bn",
                    "join_beyond_registers",
                    "out=58\nkernel=1\nactivation=\"relu\"\njoin=true",
                    {{14, 56, 56, 8}, {14, 56, 56, 116}}}),
      in_groups(4, {"conv_bn",
                    "join_odd_rows",
                    "out=58\nkernel=1\nactivation=\"relu\"\njoin=true",
                    {{4, 133, 133, 2}, {4, 133, 133, 116}}}),
      {"max_pool", "large", "kernel=3\nstride=2\npadding=1", {{4, 112, 112, 64}}},
      {"global_average_pool", "large", "", {{32, 7, 7, 2048}}},
      {"linear", "large", "out=1000", {{64, 2048}}},
      {"add", "large", "", {{16, 28, 28, 128}, {16, 28, 28, 128}}},
      {"shuffle_join", "large", "", {{8, 28, 28, 116}, {8, 28, 28, 58}}},
      {"shuffle_join", "large_equal", "", {{8, 14, 14, 116}, {8, 14, 14, 116}}},
      {"channel_slice", "large", "first=58\ncount=58", {{8, 28, 28, 116}}},
      {"channel_scale", "large", "", {{16, 14, 14, 480}, {16, 1, 1, 480}}},
      {"silu", "large", "", {{16, 14, 14, 480}}},
  };
  return rows;
}

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> rows(layer_cases().begin(), layer_cases().end());
  for (LayerCase row : large_cases()) {
    row.name = "big_" + row.name;
    rows.push_back(std::move(row));
  }
  return rows;
}

struct Tolerances {
  double output;  // of the norm of the difference, relative to the reference's
  // More: rounding turns some ReLUs around, between the two layers of a pair, too. As many with
  // tf32's operands as with fp16's, which have the same 11 bits.
  double gradient;
};

Tolerances tolerances_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return {2e-5, 1e-4};
    case Precision::tf32:
      return {2e-3, 5e-2};
    case Precision::bf16:
      return {1.5e-2, 1.2e-1};
    case Precision::fp16:
      return {3e-3, 5e-2};
  }
  return {};
}

/// What a few ReLUs that rounding turned around make of fp32's gradients, for each comes and goes
/// as a whole: of the millions of elements of the largest cases one does so now and then. No more
/// than half a percent; the other precisions' tolerances are made for many. `tolerance`: of the
/// results, which are both next to zero there.
double error_of_turned(const std::vector<float>& got, const std::vector<float>& wanted,
                       double tolerance) {
  constexpr std::size_t few = 10;
  double norm = 0.0;
  for (const float value : wanted) norm += static_cast<double>(value) * static_cast<double>(value);
  const auto size = static_cast<double>(wanted.size());
  const double next_to_zero = tolerance * std::sqrt(norm / size);
  std::size_t turned = 0;
  for (std::size_t i = 0; i < wanted.size() && i < got.size(); ++i) {
    const double other = static_cast<double>(got[i]) + static_cast<double>(wanted[i]);
    if ((got[i] == 0.0F) != (wanted[i] == 0.0F) && std::abs(other) <= next_to_zero) ++turned;
  }
  if (turned > few) return 0.0;
  // Down to a quarter of the elements have gradients, of which some are several times the usual.
  return std::min(5.0 * std::sqrt(static_cast<double>(turned) / size), 5e-3);
}

void expect_close(const std::vector<float>& got, const std::vector<float>& wanted, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
    difference += d * d;
    norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  // Sums that cancel are judged by what was summed.
  const double scale = std::max(std::sqrt(norm), 1e-2 * std::sqrt(static_cast<double>(got.size())));
  // A comparison that a NaN fails.
  EXPECT_TRUE(std::sqrt(difference) <= tolerance * scale)
      << what << ": error " << std::sqrt(difference) / scale;
}

using Case = std::tuple<LayerCase, Precision>;

class CudaLayerTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    context_ = std::make_unique<AnyContext>(std::in_place_type<CudaContext>, 0);
  }
  static void TearDownTestSuite() { context_.reset(); }
  static std::unique_ptr<AnyContext> context_;

  const LayerCase& row() const { return std::get<0>(GetParam()); }
  Precision precision() const { return std::get<1>(GetParam()); }
  std::vector<bool> all_wanted() const { return std::vector<bool>(row().inputs.size(), true); }

  /// The row's values as the device holds them, so that both sides compute on the same ones.
  KernelData device_data(const Layer& layer) const {
    KernelData data = make_data(row(), layer);
    const DType dtype = activation_dtype(precision());
    for (std::vector<float>& input : data.inputs) input = rounded(*context_, input, dtype);
    data.output_gradient = rounded(*context_, data.output_gradient, dtype);
    const auto specs = layer.parameters(row().inputs);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].role != ParameterRole::norm) {
        data.parameters[i] = rounded(*context_, data.parameters[i], dtype);
      }
    }
    return data;
  }
  CudaMode mode(bool training) const {
    return {.precision = precision(),
            .training = training,
            .groups = row().groups,
            .wanted = all_wanted()};
  }

  void expect_the_cpus(const CudaMode& how);

  LayerPtr layer_ = make_layer(std::get<0>(GetParam()));
  KernelData data_ = device_data(*layer_);
};

std::unique_ptr<AnyContext> CudaLayerTest::context_;

/// Of layers with running statistics.
class CudaNormTest : public CudaLayerTest {};

void CudaLayerTest::expect_the_cpus(const CudaMode& how) {
  SCOPED_TRACE(how.training ? "training" : "evaluation");
  const KernelResult wanted = run_kernel(*layer_, data_,
                                         {.threads = 1,
                                          .training = how.training,
                                          .fixed_statistics = how.fixed_statistics,
                                          .groups = how.groups,
                                          .wanted = how.wanted});
  const KernelResult got = run_cuda_kernel(*context_, *layer_, data_, how);
  EXPECT_TRUE(got.guards_intact);
  EXPECT_TRUE(got.inputs_untouched);
  const Tolerances tolerances = tolerances_of(precision());
  const double large_mean = row().tolerance > 1e-3 ? 100.0 : 1.0;
  const double of_gradients =
      std::max(tolerances.gradient * large_mean,
               error_of_turned(got.output, wanted.output, tolerances.output));
  expect_close(got.output, wanted.output, tolerances.output * large_mean, "output");
  for (std::size_t i = 0; i < wanted.buffers.size(); ++i) {
    expect_close(got.buffers[i], wanted.buffers[i], tolerances.output, "running statistics");
  }
  for (std::size_t i = 0; i < wanted.input_gradients.size(); ++i) {
    expect_close(got.input_gradients[i], wanted.input_gradients[i], of_gradients,
                 "input gradient " + std::to_string(i));
  }
  for (std::size_t i = 0; i < wanted.parameter_gradients.size(); ++i) {
    expect_close(got.parameter_gradients[i], wanted.parameter_gradients[i], of_gradients,
                 "parameter gradient " + std::to_string(i));
  }
}

TEST_P(CudaLayerTest, IsTheCpus) {
  expect_the_cpus(mode(true));
  expect_the_cpus(mode(false));
}

TEST_P(CudaNormTest, IsTheCpusWithFixedStatistics) {
  CudaMode how = mode(true);
  how.fixed_statistics = true;
  expect_the_cpus(how);
}

/// Of 1x1 convolutions whose kernel is made to sum the statistics, whatever is faster.
class CudaProductTest : public CudaLayerTest {};

TEST_P(CudaProductTest, IsTheCpus) {
  if (!may_measure()) GTEST_SKIP() << "by TANDEM_TUNE=off no such kernel is taken";
  constexpr int columns = 64;
  const Shape& input = row().inputs[0];
  const Conv2dOptions options{.out_channels = layer_->parameters(row().inputs)[0].shape[0],
                              .window = {.kernel = 1}};
  const ConvolutionProblem problem =
      convolution_problem(ConvolutionOperation::forward, precision(), options, input,
                          conv2d_output_shape(options, input));
  auto& cuda = std::get<CudaContext>(*context_);
  ASSERT_TRUE(
      make_pointwise_tiles(cuda, problem, static_cast<int>(row().groups), columns).has_value());
  // As choose_pointwise_statistics() remembers it.
  cuda.libraries().choices.remember(
      fmt::format("{} statistics of {} groups", problem.key(), row().groups),
      fmt::format("with statistics {}", columns));
  const BatchNormShape shape{.rows = input[0] * input[1] * input[2] / row().groups,
                             .channels = options.out_channels,
                             .groups = row().groups};
  const std::optional<PointwiseTiles> chosen = choose_pointwise_statistics(cuda, problem, shape);
  ASSERT_TRUE(chosen && chosen->columns == columns);
  // And the layer asks for it: nothing else takes its statistics.
  const bool pair = row().kind == "conv_bn_pair";
  const BatchNormSetup setup{.shape = shape,
                             .options = {},
                             .dtype = activation_dtype(precision()),
                             .training = true,
                             .defers = pair,
                             .use = pair ? SecondInput::none : SecondInput::joined};
  ASSERT_EQ(batch_norm_ways(cuda, setup).front().forward, NormForward::two_kernels);
  expect_the_cpus(mode(true));
}

TEST_P(CudaLayerTest, RepeatsToTheBitWhateverMemoryHeld) {
  for (const bool training : {true, false}) {
    CudaMode how = mode(training);
    const KernelResult first = run_cuda_kernel(*context_, *layer_, data_, how);
    how.content = 0;
    EXPECT_TRUE(run_cuda_kernel(*context_, *layer_, data_, how) == first);
  }
}

TEST_P(CudaLayerTest, LeavesOutWhatIsNotWanted) {
  const KernelResult all = run_cuda_kernel(*context_, *layer_, data_, mode(true));
  for (std::size_t without = 0; without < row().inputs.size(); ++without) {
    CudaMode how = mode(true);
    how.wanted[without] = false;
    const KernelResult some = run_cuda_kernel(*context_, *layer_, data_, how);
    EXPECT_TRUE(some.guards_intact);
    EXPECT_TRUE(some.parameter_gradients == all.parameter_gradients);
    for (std::size_t i = 0; i < how.wanted.size(); ++i) {
      if (!how.wanted[i]) continue;
      EXPECT_TRUE(some.input_gradients[i] == all.input_gradients[i]);
    }
  }
}

TEST_P(CudaLayerTest, AddsToGradientsWhereItSaysSo) {
  CudaMode how = mode(true);
  how.adds = inputs_added_to(*layer_, *context_);
  if (std::ranges::find(how.adds, true) == how.adds.end()) return;
  const KernelResult own = run_cuda_kernel(*context_, *layer_, data_, mode(true));
  const KernelResult sum = run_cuda_kernel(*context_, *layer_, data_, how);
  EXPECT_TRUE(sum.guards_intact);
  for (std::size_t i = 0; i < own.input_gradients.size(); ++i) {
    std::vector<float> wanted = own.input_gradients[i];
    const std::vector<float> before = gradient_before(wanted.size());
    for (std::size_t e = 0; how.adds[i] && e < wanted.size(); ++e) wanted[e] += before[e];
    expect_close(sum.input_gradients[i], wanted, tolerances_of(precision()).output, "sum");
  }
}

TEST_P(CudaLayerTest, PassesNanOn) {
  for (std::vector<float>& input : data_.inputs) std::ranges::fill(input, std::nanf(""));
  const KernelResult got = run_cuda_kernel(*context_, *layer_, data_, mode(true));
  EXPECT_FALSE(std::ranges::all_of(got.output, [](float value) { return std::isfinite(value); }));
}

std::vector<LayerCase> cases_with_statistics() {
  std::vector<LayerCase> rows = all_cases();
  std::erase_if(rows,
                [](const LayerCase& row) { return make_layer(row)->buffers(row.inputs).empty(); });
  return rows;
}

/// Of sums that are read back alone, and of such that are left to a reader, in groups too.
std::vector<LayerCase> cases_with_product() {
  std::vector<LayerCase> rows = all_cases();
  std::erase_if(rows, [](const LayerCase& row) {
    const bool pair = row.kind == "conv_bn_pair";
    return !(row.kind == "conv_bn" && row.name == "big_join_equal_beyond_registers") &&
           !(pair && (row.name == "big_relu6" || row.name == "big_4_groups_relu6"));
  });
  return rows;
}

TEST(CudaProductCases, AreThree) { EXPECT_EQ(cases_with_product().size(), 3U); }

auto in_every_precision(const std::vector<LayerCase>& rows) {
  return testing::Combine(
      testing::ValuesIn(rows),
      testing::Values(Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16));
}

std::string name_of_test(const testing::TestParamInfo<Case>& test) {
  const LayerCase& row = std::get<0>(test.param);
  return row.kind + "_" + row.name + "_" + std::string(name_of(std::get<1>(test.param)));
}

INSTANTIATE_TEST_SUITE_P(Table, CudaLayerTest, in_every_precision(all_cases()), name_of_test);
INSTANTIATE_TEST_SUITE_P(Table, CudaProductTest,
                         testing::Combine(testing::ValuesIn(cases_with_product()),
                                          testing::Values(Precision::bf16, Precision::fp16)),
                         name_of_test);
INSTANTIATE_TEST_SUITE_P(Table, CudaNormTest, in_every_precision(cases_with_statistics()),
                         name_of_test);

}  // namespace
}  // namespace tandem
