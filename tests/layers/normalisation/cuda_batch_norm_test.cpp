#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "device/any_context.h"
#include "device/arena.h"
#include "device/memory.h"
#include "layers/normalisation/batch_norm_case_name.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "tensor/convert.h"

// Ways of batch normalisation's kernels against others: one kernel that keeps what it can between
// its passes against the two that read everything twice, and backward from bits that say where
// gradients pass against the result that they come from.

namespace tandem {
namespace {

struct Row {
  const char* name;
  BatchNormShape shape;
  Activation activation = Activation::relu;
  bool residual = false;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Row rows[] = {
    {"one_row", {1, 64}},
    {"fewer_rows_than_threads", {7, 8}, Activation::none},
    {"kept", {12544, 256}},
    {"kept_behind_residual", {12544, 256}, Activation::relu, true},
    {"residual_alone", {3000, 96}, Activation::none, true},
    {"read_again", {200704, 64}, Activation::silu},
    {"read_again_behind_residual", {50176, 512}, Activation::relu, true},
    {"uneven_tiles", {9001, 576}, Activation::relu6},
    {"narrow", {401408, 24}},
    {"more_parts_than_blocks", {300, 12800}},
    {"relu6_behind_residual", {3001, 64}, Activation::relu6, true},
    {"groups_behind_residual", {1000, 72, 3}, Activation::relu, true},
    {"more_parts_than_blocks_behind_residual", {600, 12800}, Activation::relu, true},
};

using Case = std::tuple<Row, DType>;

class CudaBatchNormTest : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    gpu = std::make_unique<AnyContext>(std::in_place_type<CudaContext>, 0);
  }
  static void TearDownTestSuite() { gpu.reset(); }
  static std::unique_ptr<AnyContext> gpu;
  static CudaContext& cuda() { return std::get<CudaContext>(*gpu); }

  const Row& row() const { return std::get<0>(GetParam()); }
  const BatchNormShape& shape() const { return row().shape; }
  DType dtype() const { return std::get<1>(GetParam()); }
  Shape tensor_shape() const { return {shape().rows * shape().groups, shape().channels}; }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype()); }
  Tensor tensor(const Arena& arena) const { return {arena.data(), tensor_shape(), dtype()}; }

  std::int64_t elements() const { return shape().elements() * shape().groups; }

  Arena noise(std::string_view name, float mean) const {
    // The same numbers again and again, never in the same channel.
    RandomStream random(5, name);
    std::vector<float> drawn(65537);
    for (float& value : drawn) value = mean + random.normal();
    std::vector<float> values(static_cast<std::size_t>(elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = drawn[i % drawn.size()];
    const Arena staging(*gpu, values.size() * sizeof(float), "a test");
    copy_to_device(*gpu, values.data(), values.size() * sizeof(float), staging.data());
    Arena arena(*gpu, bytes(), "a test");
    convert(*gpu, Tensor(staging.data(), tensor_shape()), tensor(arena));
    synchronize(*gpu);
    return arena;
  }
  Arena copy_of(const Arena& from) const {
    Arena arena(*gpu, bytes(), "a test");
    copy_on_device(*gpu, from.data(), bytes(), arena.data());
    return arena;
  }
  std::vector<float> floats_of(const Arena& arena) const {
    const Arena staging(*gpu, static_cast<std::size_t>(elements()) * sizeof(float), "a test");
    convert(*gpu, tensor(arena), Tensor(staging.data(), tensor_shape()));
    return read<float>(staging.data(), static_cast<std::size_t>(elements()));
  }
  template <typename T>
  static std::vector<T> read(const void* from, std::size_t count) {
    std::vector<T> values(count);
    copy_to_host(*gpu, from, count * sizeof(T), values.data());
    return values;
  }

  /// Memory of kernels beside their tensors.
  struct Memory {
    Arena parameters;  ///< arrays of a float a channel
    Arena table;
    Arena partials;
    Arena counters;
    std::size_t counted;
  };
  /// Weight, bias, and each group's running statistics.
  std::size_t arrays() const { return 2 + 2 * static_cast<std::size_t>(shape().groups); }

  /// `tiles`: of the kernel under test, or null.
  Memory memory(const PersistentTiles* tiles) const {
    const auto channels = static_cast<std::size_t>(shape().channels);
    std::vector<float> host(arrays() * channels, 0.5F);
    for (std::size_t i = 0; i < channels; ++i) host[i] = 1.0F + 0.01F * static_cast<float>(i % 50);
    const std::size_t counted =
        tiles == nullptr ? batch_norm_counters(cuda(), shape(), dtype()) : tiles->counters();
    const std::size_t floats = tiles == nullptr ? batch_norm_partial_bytes(cuda(), shape(), dtype())
                                                : tiles->partials() * sizeof(float);
    Memory made{Arena(*gpu, host.size() * sizeof(float), "a test"),
                Arena(*gpu, BatchNormTable::bytes(shape()), "a test"),
                Arena(*gpu, floats, "a test"), Arena(*gpu, counted * sizeof(unsigned), "a test"),
                counted};
    copy_to_device(*gpu, host.data(), host.size() * sizeof(float), made.parameters.data());
    set_to_zero(*gpu, made.counters.data(), counted * sizeof(unsigned));
    set_to_zero(*gpu, made.table.data(), BatchNormTable::bytes(shape()));
    return made;
  }
  float* array(const Memory& memory, std::size_t i) const {
    return reinterpret_cast<float*>(memory.parameters.data()) +
           i * static_cast<std::size_t>(shape().channels);
  }
  BatchNormStatistics statistics(const Memory& memory) const {
    return {.weight = array(memory, 0),
            .bias = array(memory, 1),
            .running_mean = array(memory, 2),
            .running_variance = array(memory, 3),
            .running_apart = 2 * shape().channels,
            .table = BatchNormTable::at(memory.table.data(), shape()),
            .rows = static_cast<double>(shape().rows),
            .epsilon = 1e-5F,
            .momentum = 0.1F};
  }
  static BatchNormWork work(const Memory& memory) {
    return {.partials = memory.partials.data(),
            .counters = reinterpret_cast<unsigned*>(memory.counters.data())};
  }
  std::vector<float> parameters_of(const Memory& memory, std::size_t first,
                                   std::size_t count) const {
    return read<float>(array(memory, first), count * static_cast<std::size_t>(shape().channels));
  }
  static void expect_zero_counters(const Memory& memory) {
    EXPECT_EQ(read<unsigned>(memory.counters.data(), memory.counted),
              std::vector<unsigned>(memory.counted, 0));
  }
  PersistentTiles tiles() const {
    const auto made = make_persistent_tiles(cuda(), shape(), dtype());
    TANDEM_CHECK(made, "no tiles for {}", row().name);
    return *made;
  }
  /// The kernel over these tiles leaves what the two kernels do, and the same bits in every run.
  void expect_two_kernels(const PersistentTiles& one_kernel) const;

  /// Of results, which are rounded to the dtype.
  double unit() const {
    return dtype() == DType::f32 ? 2e-5 : dtype() == DType::bf16 ? 0x1p-7 : 0x1p-10;
  }
};

std::unique_ptr<AnyContext> CudaBatchNormTest::gpu;

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * (1.0 + std::abs(expected[i]))) << "at " << i;
  }
}

/// Four times as many parts as the device runs blocks of at once, and tiles of several parts:
/// blocks have several, and wait for those of others.
PersistentTiles crowded(PersistentTiles tiles) {
  const int before = tiles.parts();
  tiles.rows.chunks *= 4;
  constexpr std::size_t slot = 16 * 512;  // bytes: a pack of each thread
  if (tiles.slots > 1) {
    --tiles.slots;
    tiles.shared_bytes -= slot;
  }
  tiles.shared_bytes += static_cast<std::size_t>(tiles.parts() - before) * sizeof(int);
  return tiles;
}

void CudaBatchNormTest::expect_two_kernels(const PersistentTiles& one_kernel) const {
  const Arena x = noise("x", 3.0F);
  const Arena residual = noise("residual", 0.0F);
  const Tensor added = row().residual ? tensor(residual) : Tensor();
  const Memory two = memory(nullptr);
  const Arena expected(*gpu, bytes(), "a test");
  batch_norm_statistics(cuda(), shape(), tensor(x), statistics(two), work(two));
  batch_norm_apply(cuda(), shape(), tensor(x), statistics(two).table, {.tensor = added},
                   row().activation, tensor(expected));
  std::vector<float> first;
  for (const bool in_place : {false, true, false}) {
    const Memory one = memory(&one_kernel);
    const Arena input = copy_of(x);
    const Arena apart = noise("garbage", 0.0F);
    const Arena& found = in_place ? input : apart;
    const Memory before = memory(&one_kernel);
    if (!in_place) {
      // With the same counters, one behind the other.
      batch_norm_persistent_forward(cuda(), one_kernel, tensor(input), added, row().activation,
                                    tensor(found), nullptr, statistics(before), work(one));
    }
    batch_norm_persistent_forward(cuda(), one_kernel, tensor(input), added, row().activation,
                                  tensor(found), nullptr, statistics(one), work(one));
    synchronize(*gpu);
    expect_zero_counters(one);
    expect_near(parameters_of(one, 2, 2), parameters_of(two, 2, 2), 2e-5);
    const std::vector<float> values = floats_of(found);
    expect_near(values, floats_of(expected), unit());
    if (first.empty()) first = values;
    EXPECT_EQ(std::memcmp(values.data(), first.data(), first.size() * sizeof(float)), 0)
        << "other bits in another run";
    const std::size_t table = BatchNormTable::bytes(shape()) / sizeof(float);
    expect_near(read<float>(one.table.data(), table), read<float>(two.table.data(), table), 2e-5);
  }
}

TEST_P(CudaBatchNormTest, IsTwoKernels) {
  if (shape().groups > 1) {
    EXPECT_FALSE(make_persistent_tiles(cuda(), shape(), dtype()));
    return;
  }
  expect_two_kernels(tiles());
}

TEST_P(CudaBatchNormTest, IsTwoKernelsWhereBlocksWaitForOthersParts) {
  if (shape().groups > 1 || tiles().rows.chunks == 1) GTEST_SKIP() << "a block has whole tiles";
  expect_two_kernels(crowded(tiles()));
}

TEST_P(CudaBatchNormTest, BackwardFromBitsIsThatFromTheResult) {
  if (!row().residual || dtype() == DType::f32 || !passes_or_stops(row().activation)) {
    GTEST_SKIP() << "no bits";
  }
  const Arena x = noise("x", 3.0F);
  const Arena residual = noise("residual", 0.0F);
  const Memory forward = memory(nullptr);
  const Arena y(*gpu, bytes(), "a test");
  const auto count = static_cast<std::size_t>(elements() / 8);
  const Arena passes(*gpu, count, "a test");
  auto* const bits = reinterpret_cast<std::uint8_t*>(passes.data());
  batch_norm_statistics(cuda(), shape(), tensor(x), statistics(forward), work(forward));
  batch_norm_apply(cuda(), shape(), tensor(x), statistics(forward).table,
                   {.tensor = tensor(residual)}, row().activation, tensor(y), bits);
  const std::vector<float> values = floats_of(y);
  const std::vector<std::uint8_t> found = read<std::uint8_t>(passes.data(), count);
  std::size_t passing = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool wanted =
        values[i] > 0.0F && (row().activation == Activation::relu || values[i] < 6.0F);
    ASSERT_EQ((found[i / 8] >> i % 8 & 1) != 0, wanted) << "at " << i << ", of " << values[i];
    if (wanted) ++passing;
  }
  EXPECT_GT(passing, 0U);
  EXPECT_LT(passing, values.size());
  if (const auto tiles = make_persistent_tiles(cuda(), shape(), dtype())) {
    const Memory one = memory(&*tiles);
    const Arena again(*gpu, bytes(), "a test");
    set_to_zero(*gpu, passes.data(), count);
    batch_norm_persistent_forward(cuda(), *tiles, tensor(x), tensor(residual), row().activation,
                                  tensor(again), bits, statistics(one), work(one));
    const std::vector<float> results = floats_of(again);
    const auto persistent = read<std::uint8_t>(passes.data(), count);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool wanted =
          results[i] > 0.0F && (row().activation == Activation::relu || results[i] < 6.0F);
      ASSERT_EQ((persistent[i / 8] >> i % 8 & 1) != 0, wanted) << "at " << i;
    }
    copy_to_device(*gpu, found.data(), count, passes.data());
  }
  const auto gradients_of = [&](const std::uint8_t* from) {
    const Memory backward = memory(nullptr);
    copy_on_device(*gpu, forward.table.data(), BatchNormTable::bytes(shape()),
                   backward.table.data());
    const auto channels = static_cast<std::size_t>(shape().channels);
    const std::size_t table = BatchNormTable::bytes(shape()) / 4;
    const Arena sums(*gpu, 2 * channels * sizeof(float), "a test");
    const Arena shares(*gpu, 2 * table * sizeof(double), "a test");
    const Arena coefficients(*gpu, 2 * table, "a test");
    const Arena dz(*gpu, bytes(), "a test");
    const Arena gradient = noise("gradient", 0.1F);
    auto* const floats = reinterpret_cast<float*>(sums.data());
    const bool grouped = shape().groups > 1;
    batch_norm_sum_residual_gradients(
        cuda(), shape(), tensor(x), tensor(y), from, tensor(gradient), row().activation, tensor(dz),
        {.table = BatchNormTable::at(backward.table.data(), shape()),
         .weight_gradient = floats,
         .bias_gradient = floats + channels,
         .group_gradients = grouped ? reinterpret_cast<double*>(shares.data()) : nullptr,
         .slope = reinterpret_cast<float*>(coefficients.data()),
         .offset = reinterpret_cast<float*>(coefficients.data() + table),
         .rows = static_cast<double>(shape().rows)},
        work(backward));
    std::vector<float> made = floats_of(dz);
    const std::vector<float> parameters = read<float>(sums.data(), 2 * channels);
    made.insert(made.end(), parameters.begin(), parameters.end());
    return made;
  };
  EXPECT_TRUE(gradients_of(bits) == gradients_of(nullptr));
}

/// Sums whose residual is left to them unnormalised.
class CudaLeftResidualTest : public CudaBatchNormTest {};

const Row left_rows[] = {
    {"in_groups", {1000, 72, 3}},
    {"folded_with_a_tail", {1001, 58}},
    {"folded_in_groups", {1000, 58, 4}, Activation::relu6},
    {"element_by_element_in_groups", {25, 58, 2}},
    {"less_than_a_fold", {1, 58}, Activation::none},
};

TEST_P(CudaLeftResidualTest, AreSumsOfWhatIsNormalisedBefore) {
  const Arena x = noise("x", 3.0F);
  const Arena residual = noise("residual", 1.0F);
  const Memory own = memory(nullptr);
  const Memory other = memory(nullptr);
  batch_norm_statistics(cuda(), shape(), tensor(x), statistics(own), work(own));
  batch_norm_statistics(cuda(), shape(), tensor(residual), statistics(other), work(other));
  const bool has_bits =
      dtype() != DType::f32 && passes_or_stops(row().activation) && shape().channels % 8 == 0;
  const auto count = static_cast<std::size_t>(elements() / 8);
  const auto sum = [&](const BatchNormResidual& added) {
    const Arena y = noise("garbage", 0.0F);
    const Arena passes(*gpu, count, "a test");
    set_to_zero(*gpu, passes.data(), count);
    batch_norm_apply(cuda(), shape(), tensor(x), statistics(own).table, added, row().activation,
                     tensor(y),
                     has_bits ? reinterpret_cast<std::uint8_t*>(passes.data()) : nullptr);
    return std::pair(floats_of(y), read<std::uint8_t>(passes.data(), count));
  };
  const Arena normalised = noise("garbage", 0.0F);
  batch_norm_apply(cuda(), shape(), tensor(residual), statistics(other).table, {}, Activation::none,
                   tensor(normalised));
  const InputNorm left =
      input_norm_of({.activation = Activation::none, .groups = shape().groups}, other.table.data(),
                    shape().channels, shape().rows * shape().groups);
  EXPECT_TRUE(sum({.tensor = tensor(residual), .norm = left}) ==
              sum({.tensor = tensor(normalised)}));
  EXPECT_FALSE(sum({.tensor = tensor(residual)}) == sum({.tensor = tensor(normalised)}));
}

auto in_every_dtype(std::span<const Row> some) {
  return testing::Combine(testing::ValuesIn(some),
                          testing::Values(DType::f32, DType::bf16, DType::f16));
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaBatchNormTest, in_every_dtype(rows), name_of_test<Row>);
INSTANTIATE_TEST_SUITE_P(Rows, CudaLeftResidualTest, in_every_dtype(left_rows), name_of_test<Row>);

}  // namespace
}  // namespace tandem
