#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "device/any_context.h"
#include "device/arena.h"
#include "device/kernel_choices.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "layers/normalisation/batch_norm_case_name.h"
#include "layers/normalisation/batch_norm_choice_cuda.h"
#include "layers/normalisation/batch_norm_cuda.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/tuning/plan_tuner.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"
#include "tensor/convert.h"

// Every way to normalise a tensor, forward and backward, against two kernels each; and the choice
// among them.

namespace tandem {
namespace {

struct Row {
  const char* name;
  BatchNormShape shape;
  SecondInput use = SecondInput::none;
  Activation activation = Activation::relu;
  bool second_is_left = false;
  std::size_t ways = 1;  ///< in 16 bits, on devices of Hopper's size
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Row rows[] = {
    {"of_registers", {8192, 64}, SecondInput::none, Activation::relu, false, 6},
    {"of_registers_silu", {2048, 96}, SecondInput::none, Activation::silu, false, 6},
    {"sum_of_registers", {2048, 256}, SecondInput::residual, Activation::relu, false, 6},
    {"sum_of_a_left_one", {2048, 256}, SecondInput::residual, Activation::relu, true, 2},
    {"sum_without_activation", {6272, 24}, SecondInput::residual, Activation::none, false, 6},
    {"join_of_registers", {2048, 64}, SecondInput::joined, Activation::relu, false, 4},
    {"in_groups", {2048, 64, 4}, SecondInput::none, Activation::relu, false, 4},
    {"sum_in_groups", {512, 64, 4}, SecondInput::residual, Activation::relu6, false, 4},
    {"of_shared_memory", {50176, 256}, SecondInput::none, Activation::relu, false, 2},
    {"sum_of_shared_memory", {50176, 256}, SecondInput::residual, Activation::relu, false, 2},
    {"of_neither", {802816, 256}, SecondInput::none, Activation::relu, false, 1},
};

using Case = std::tuple<Row, DType>;

/// What a way left.
struct Results {
  std::vector<float> y, input_gradient, second_gradient, parameter_gradients, running;
};

class BatchNormWaysTest : public testing::TestWithParam<Case> {
 protected:
  const Row& row() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  CudaContext& cuda() { return std::get<CudaContext>(context_); }

  BatchNormSetup setup() const {
    return {.shape = row().shape,
            .options = {},
            .dtype = dtype(),
            .training = true,
            .use = row().use,
            .second_is_left = row().second_is_left,
            .activation = row().activation};
  }
  /// Of so many times the channels.
  Shape shape_of(std::int64_t width) const {
    return {row().shape.rows * row().shape.groups, row().shape.channels * width};
  }
  std::int64_t result_width() const { return row().use == SecondInput::joined ? 2 : 1; }

  /// The same numbers again and again, never in the same channel.
  Tensor noise(std::string_view name, std::int64_t width, float mean) {
    RandomStream random(5, name);
    std::vector<float> drawn(65537);
    for (float& value : drawn) value = mean + random.normal();
    const Tensor tensor = empty(width);
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawn[i % drawn.size()];
    const Arena staging(context_, values.size() * sizeof(float), "a test");
    copy_to_device(context_, values.data(), values.size() * sizeof(float), staging.data());
    convert(context_, Tensor(staging.data(), tensor.shape()), tensor);
    synchronize(context_);
    return tensor;
  }
  Tensor empty(std::int64_t width) {
    const Tensor unplaced(nullptr, shape_of(width), dtype());
    arenas_.emplace_back(context_, unplaced.bytes(), "a test");
    return {arenas_.back().data(), unplaced.shape(), dtype()};
  }
  std::vector<float> floats_of(const Tensor& tensor) {
    if (!tensor.defined()) return {};
    const auto count = static_cast<std::size_t>(tensor.elements());
    const Arena staging(context_, count * sizeof(float), "a test");
    convert(context_, tensor, Tensor(staging.data(), tensor.shape()));
    std::vector<float> values(count);
    copy_to_host(context_, staging.data(), count * sizeof(float), values.data());
    return values;
  }

  Results run(const BatchNormWay& way) {
    BatchNormSetup by = setup();
    by.way = way;
    CudaBatchNorm norm(cuda(), by);
    const Arena saved(context_, norm.saved(), "a test");
    const Arena scratch(context_, std::max(norm.forward_scratch(), norm.backward_scratch()),
                        "a test");
    const auto channels = static_cast<std::size_t>(row().shape.channels);
    const auto running = 2 * static_cast<std::size_t>(row().shape.groups);  // arrays
    std::vector<float> host((4 + running) * channels, 0.5F);
    for (std::size_t i = 0; i < channels; ++i) host[i] = 1.0F + 0.01F * static_cast<float>(i % 50);
    // Running statistics are not the same in any two groups.
    for (std::size_t each = 4; each < host.size() / channels; ++each) {
      std::fill_n(host.begin() + static_cast<std::ptrdiff_t>(each * channels), channels,
                  0.5F + 0.01F * static_cast<float>(each));
    }
    const Arena parameters(context_, host.size() * sizeof(float), "a test");
    copy_to_device(context_, host.data(), host.size() * sizeof(float), parameters.data());
    const auto array = [&](std::size_t i) {
      return Tensor(reinterpret_cast<float*>(parameters.data()) + i * channels,
                    {row().shape.channels}, DType::f32);
    };
    const Tensor x = noise("x", 1, 3.0F);
    const Tensor second = row().use == SecondInput::none ? Tensor() : noise("second", 1, 0.0F);
    const Tensor second_gradient = row().use == SecondInput::none ? Tensor() : empty(1);
    const Tensor y = empty(result_width());
    const Tensor gradient = noise("gradient", result_width(), 0.1F);
    const Tensor input_gradient = row().use == SecondInput::joined ? empty(1) : gradient;
    norm.forward({.x = x,
                  .second = second,
                  .second_norm = second_norm(second),
                  .y = y,
                  .weight = array(0),
                  .bias = array(1),
                  .running_mean = array(4),
                  .running_variance = array(5),
                  .running_apart = row().shape.groups == 1 ? 0 : 2 * row().shape.channels,
                  .saved = saved.data(),
                  .scratch = scratch.data()});
    norm.backward({.x = x,
                   .y = y,
                   .output_gradient = gradient,
                   .second_gradient = second_gradient,
                   .input_gradient = input_gradient,
                   .weight_gradient = array(2),
                   .bias_gradient = array(3),
                   .saved = saved.data(),
                   .scratch = scratch.data()});
    std::vector<float> arrays(host.size());
    copy_to_host(context_, parameters.data(), arrays.size() * sizeof(float), arrays.data());
    const auto of = [&](std::size_t first, std::size_t count) {
      const auto from = arrays.begin() + static_cast<std::ptrdiff_t>(first * channels);
      return std::vector<float>(from, from + static_cast<std::ptrdiff_t>(count * channels));
    };
    Results results{.y = floats_of(y),
                    .input_gradient = floats_of(input_gradient),
                    .second_gradient = floats_of(second_gradient),
                    .parameter_gradients = of(2, 2),
                    .running = of(4, running)};
    arenas_.clear();
    return results;
  }

  /// Of results, which are rounded to the dtype.
  double unit() const {
    return dtype() == DType::f32 ? 5e-5 : dtype() == DType::bf16 ? 0x1p-7 : 0x1p-10;
  }

 private:
  /// A residual that is left: by a table of ones and a half.
  InputNorm second_norm(const Tensor& second) {
    if (!row().second_is_left) return {};
    const std::size_t bytes = BatchNormTable::bytes(row().shape);
    const std::vector<float> halves(bytes / sizeof(float), 0.5F);
    arenas_.emplace_back(context_, bytes, "a test");
    copy_to_device(context_, halves.data(), bytes, arenas_.back().data());
    return input_norm_of({.activation = Activation::none, .groups = row().shape.groups},
                         arenas_.back().data(), row().shape.channels, second.shape()[0]);
  }

  // Before the context, which opens the file of choices.
  TemporaryFolder folder_;
  ScopedVariable cache_{"TANDEM_CACHE_DIR", folder_.path().c_str()};

 protected:
  AnyContext context_{std::in_place_type<CudaContext>, 0};

 private:
  std::vector<Arena> arenas_;
};

/// All but a few, where the sums of two ways lie on different sides of an activation's kink.
void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 double tolerance, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  std::size_t far = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!(std::abs(found[i] - expected[i]) <= tolerance * (1.0 + std::abs(expected[i])))) ++far;
  }
  EXPECT_LE(far, found.size() / 20000) << what;
}

TEST_P(BatchNormWaysTest, AllDoTheSame) {
  const std::vector<BatchNormWay> ways = batch_norm_ways(cuda(), setup());
  if (size_of(dtype()) == 2 && cuda().device().multiprocessors >= 114) {
    EXPECT_EQ(ways.size(), row().ways);
  }
  if (ways.size() == 1) return;
  const Results expected = run({});
  for (const BatchNormWay& way : ways) {
    SCOPED_TRACE(name_of(way));
    const Results found = run(way);
    expect_near(found.y, expected.y, unit(), "result");
    expect_near(found.input_gradient, expected.input_gradient, unit(), "input's gradient");
    expect_near(found.second_gradient, expected.second_gradient, unit(), "second's gradient");
    expect_near(found.running, expected.running, 2e-5, "running statistics");
    // Sums of as many terms as rows, of which those at a kink may differ.
    expect_near(found.parameter_gradients, expected.parameter_gradients, 5e-3, "parameters'");
  }
}

TEST_P(BatchNormWaysTest, TheFastestIsKept) {
  if (!may_measure()) GTEST_SKIP() << "TANDEM_TUNE times nothing";
  const std::vector<BatchNormWay> ways = batch_norm_ways(cuda(), setup());
  EXPECT_EQ(choose_batch_norm_way(cuda(), setup(), NormKernels::by_size), ways.front());
  KernelChoices& choices = *kernel_choices(context_);
  EXPECT_EQ(choices.made(), 0U);
  const BatchNormWay chosen = choose_batch_norm_way(cuda(), setup(), NormKernels::by_timing);
  EXPECT_NE(std::ranges::find(ways, chosen), ways.end());
  EXPECT_EQ(choices.made(), ways.size() == 1 ? 0U : 1U);
  EXPECT_EQ(choose_batch_norm_way(cuda(), setup(), NormKernels::by_timing), chosen);
  EXPECT_EQ(choices.made(), ways.size() == 1 ? 0U : 1U);
  // What is kept goes before what is fastest.
  if (ways.size() == 1) return;
  const std::string text = choices.text();
  const std::size_t at = text.find("norm ");
  ASSERT_NE(at, std::string::npos);
  const std::string key = text.substr(at, text.find('\t', at) - at);
  for (const BatchNormWay& way : ways) {
    choices.record(key, name_of(way));
    EXPECT_EQ(choose_batch_norm_way(cuda(), setup(), NormKernels::by_timing), way);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BatchNormWaysTest,
                         testing::Combine(testing::ValuesIn(rows),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         name_of_test<Row>);

}  // namespace
}  // namespace tandem
