#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "device/any_context.h"
#include "device/arena.h"
#include "device/cuda_check.h"
#include "device/memory.h"
#include "layers/convolution/conv2d.h"
#include "layers/normalisation/pointwise_statistics_cuda.h"
#include "layers/plans/convolution_direct.h"
#include "tensor/convert.h"

// A 1x1 convolution that sums its result's statistics: against the definition and against the
// kernel that reads the result for them.

namespace tandem {
namespace {

struct Row {
  const char* name;
  Shape input;
  std::int64_t out;
  std::int64_t groups = 1;
  float mean = 0.0F;          ///< of x and weights, which are then close to it
  bool large_blocks = false;  ///< they take more shared memory than blocks of some cards have
};

const Row rows[] = {
    {"one_pixel", {1, 1, 1, 8}, 8},
    {"part_of_a_tile", {1, 7, 7, 16}, 24},
    {"columns_32", {3, 28, 28, 96}, 32},
    {"columns_40", {3, 28, 28, 24}, 40},
    {"columns_64", {2, 56, 56, 64}, 64},
    {"columns_96", {5, 31, 29, 16}, 96},
    {"columns_256", {16, 28, 28, 64}, 256},
    {"columns_1000", {4, 14, 14, 136}, 1000},
    {"deep", {4, 28, 28, 256}, 128},
    {"narrower_for_its_depth", {8, 14, 14, 384}, 64, 1, 0.0F, true},
    {"many_tiles", {32, 112, 112, 16}, 96},
    {"many_deep_tiles", {32, 56, 56, 144}, 24},  // two at once in shared memory, in several turns
    {"groups", {12, 15, 13, 40}, 104, 4},
    {"groups_of_many_tiles", {32, 56, 56, 32}, 64, 2},
    {"groups_of_many_deep_tiles", {32, 56, 56, 192}, 32, 2},
    {"far_from_zero", {8, 28, 28, 64}, 128, 1, 8.0F},
};

using Case = std::tuple<Row, Precision>;

ConvolutionProblem problem_of(const Row& row, Precision precision, Window window = {.kernel = 1}) {
  const Conv2dOptions options{.out_channels = row.out, .window = window};
  return convolution_problem(ConvolutionOperation::forward, precision, options, row.input,
                             conv2d_output_shape(options, row.input));
}

class PointwiseStatisticsTest : public testing::TestWithParam<Case> {
 protected:
  PointwiseStatisticsTest()
      : problem_(problem_of(std::get<0>(GetParam()), std::get<1>(GetParam()))),
        shape_{.rows = problem_.pixels() / row().groups,
               .channels = row().out,
               .groups = row().groups},
        x_(operand(problem_.first_bytes(), "x")),
        weight_(operand(problem_.second_bytes(), "weight")) {}

  static void SetUpTestSuite() {
    gpu = std::make_unique<AnyContext>(std::in_place_type<CudaContext>, 0);
  }
  static void TearDownTestSuite() { gpu.reset(); }
  static std::unique_ptr<AnyContext> gpu;
  static CudaContext& cuda() { return std::get<CudaContext>(*gpu); }
  const Row& row() const { return std::get<0>(GetParam()); }

  Arena operand(std::size_t bytes, std::string_view name) const {
    RandomStream random(11, name);
    std::vector<float> values(bytes / size_of(problem_.dtype()));
    for (float& value : values) {
      value = row().mean == 0.0F ? random.normal() : row().mean + 0.1F * random.normal();
    }
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const Arena staging(*gpu, values.size() * sizeof(float), "a test");
    copy_to_device(*gpu, values.data(), values.size() * sizeof(float), staging.data());
    Arena arena(*gpu, bytes, "a test");
    convert(*gpu, Tensor(staging.data(), shape), Tensor(arena.data(), shape, problem_.dtype()));
    synchronize(*gpu);
    return arena;
  }

  /// What either kernel makes.
  struct Made {
    std::vector<std::uint16_t> y;
    std::vector<float> table;    ///< of each group four arrays
    std::vector<float> running;  ///< of each group mean and variance
    std::vector<double> rank_sums{};
    std::vector<unsigned> counters;
  };

  template <typename T>
  static std::vector<T> read(const std::byte* from, std::size_t count) {
    std::vector<T> values(count);
    copy_to_host(*gpu, from, count * sizeof(T), values.data());
    return values;
  }

  /// `result` holds y, before, or after with `tiles`; null: the kernel that reads y. `of_rank`:
  /// sums for all ranks are wanted.
  Made make(const PointwiseTiles* tiles, const Arena& result, bool of_rank) const {
    const auto channels = static_cast<std::size_t>(shape_.channels);
    const auto groups = static_cast<std::size_t>(shape_.groups);
    std::vector<float> host((2 + 2 * groups) * channels, 0.5F);
    for (std::size_t i = 0; i < channels; ++i) host[i] = 1.0F + 0.01F * static_cast<float>(i);
    // Running statistics are not the same in any two groups.
    for (std::size_t each = 2; each < host.size() / channels; ++each) {
      std::fill_n(host.begin() + static_cast<std::ptrdiff_t>(each * channels), channels,
                  0.5F + 0.01F * static_cast<float>(each));
    }
    const Arena parameters(*gpu, host.size() * sizeof(float), "a test");
    copy_to_device(*gpu, host.data(), host.size() * sizeof(float), parameters.data());
    const Arena table(*gpu, BatchNormTable::bytes(shape_), "a test");
    const Arena partials(*gpu,
                         tiles == nullptr
                             ? batch_norm_partial_bytes(cuda(), shape_, problem_.dtype())
                             : tiles->partials() * sizeof(float),
                         "a test");
    const Arena sums(*gpu, 2 * channels * sizeof(double), "a test");
    const std::size_t counted = tiles == nullptr
                                    ? batch_norm_counters(cuda(), shape_, problem_.dtype())
                                    : tiles->counters();
    const Arena counters(*gpu, counted * sizeof(unsigned), "a test");
    set_to_zero(*gpu, counters.data(), counted * sizeof(unsigned));
    set_to_zero(*gpu, table.data(), BatchNormTable::bytes(shape_));
    auto* const floats = reinterpret_cast<float*>(parameters.data());
    const BatchNormStatistics statistics{.weight = floats,
                                         .bias = floats + channels,
                                         .running_mean = floats + 2 * channels,
                                         .running_variance = floats + 3 * channels,
                                         .running_apart = groups == 1 ? 0 : 2 * shape_.channels,
                                         .table = BatchNormTable::at(table.data(), shape_),
                                         .rows = static_cast<double>(shape_.rows),
                                         .epsilon = 1e-5F,
                                         .momentum = 0.1F};
    const BatchNormWork work{
        .partials = partials.data(),
        .counters = reinterpret_cast<unsigned*>(counters.data()),
        .rank_sums = of_rank ? reinterpret_cast<double*>(sums.data()) : nullptr};
    if (tiles != nullptr) {
      pointwise_with_statistics(cuda(), *tiles, x_.data(), weight_.data(), result.data(),
                                statistics, work);
    } else {
      batch_norm_statistics(
          cuda(), shape_,
          Tensor(result.data(), {problem_.pixels(), shape_.channels}, problem_.dtype()), statistics,
          work);
    }
    synchronize(*gpu);
    Made made{.y = read<std::uint16_t>(result.data(), problem_.result_bytes() / 2),
              .table = read<float>(table.data(), BatchNormTable::bytes(shape_) / sizeof(float)),
              .running = read<float>(parameters.data() + 2 * channels * sizeof(float),
                                     2 * groups * channels),
              .counters = read<unsigned>(counters.data(), counted)};
    if (of_rank) made.rank_sums = read<double>(sums.data(), 2 * channels);
    return made;
  }

  Arena result() const {
    Arena arena(*gpu, problem_.result_bytes(), "a test");
    const std::vector<unsigned char> not_numbers(problem_.result_bytes(), 0xff);
    copy_to_device(*gpu, not_numbers.data(), not_numbers.size(), arena.data());
    return arena;
  }

  std::vector<float> floats_of(const Arena& result) const {
    const Shape shape{problem_.result_elements()};
    const auto count = static_cast<std::size_t>(problem_.result_elements());
    const Arena staging(*gpu, count * sizeof(float), "a test");
    convert(*gpu, Tensor(result.data(), shape, problem_.dtype()), Tensor(staging.data(), shape));
    synchronize(*gpu);
    return read<float>(staging.data(), count);
  }

  /// All that the kernel takes, at least one.
  template <typename Use>
  void for_all_tiles(const Use& use) const {
    int count = 0;
    for (const int columns : pointwise_columns) {
      const auto tiles =
          make_pointwise_tiles(cuda(), problem_, static_cast<int>(row().groups), columns);
      if (!tiles) continue;
      SCOPED_TRACE(fmt::format("blocks of {} channels", columns));
      use(*tiles);
      ++count;
    }
    int most_shared = 0;
    TANDEM_CUDA_CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                             cuda().device().index));
    constexpr int hoppers = 227 << 10;
    if (count == 0 && row().large_blocks && most_shared < hoppers) {
      GTEST_SKIP() << "blocks have " << most_shared << " bytes of shared memory";
    }
    EXPECT_GE(count, 1);
  }

  std::vector<double> per_row(std::vector<double> sums) const {
    for (double& sum : sums) sum /= static_cast<double>(shape_.rows);
    return sums;
  }

  ConvolutionProblem problem_;
  BatchNormShape shape_;
  Arena x_;
  Arena weight_;
};

std::unique_ptr<AnyContext> PointwiseStatisticsTest::gpu;

template <typename T>
void expect_near(const std::vector<T>& found, const std::vector<T>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance * (1.0 + std::abs(expected[i]))) << "at " << i;
  }
}

TEST_P(PointwiseStatisticsTest, HasTheDefinitionsResult) {
  const Arena expected = result();
  const ConvolutionPlanPtr plan = direct_convolution_plan(cuda(), problem_);
  const Arena scratch(*gpu, plan->scratch(), "a test");
  plan->run(x_.data(), weight_.data(), expected.data(), scratch.data());
  for_all_tiles([&](const PointwiseTiles& tiles) {
    const Arena found = result();
    make(&tiles, found, false);
    // One rounding apart where the order of the sum decides.
    const double unit = problem_.precision == Precision::bf16 ? 0x1p-7 : 0x1p-10;
    expect_near(floats_of(found), floats_of(expected), unit);
  });
}

TEST_P(PointwiseStatisticsTest, HasTheStatisticsOfItsResult) {
  for_all_tiles([&](const PointwiseTiles& tiles) {
    const Arena y = result();
    const Made found = make(&tiles, y, false);
    const Made expected = make(nullptr, y, false);
    // Of 50,000 rows whose sums were taken in two orders.
    expect_near(found.table, expected.table, 5e-5);
    expect_near(found.running, expected.running, 5e-5);
    EXPECT_EQ(found.counters, std::vector<unsigned>(found.counters.size(), 0));
    if (row().groups > 1) return;
    expect_near(per_row(make(&tiles, y, true).rank_sums), per_row(make(nullptr, y, true).rank_sums),
                2e-5);
  });
}

TEST_P(PointwiseStatisticsTest, HasTheSameBitsInEveryRun) {
  for_all_tiles([&](const PointwiseTiles& tiles) {
    const Arena y = result();
    const Made once = make(&tiles, y, false);
    const Made again = make(&tiles, y, false);
    EXPECT_EQ(once.y, again.y);
    EXPECT_EQ(once.table, again.table);
    EXPECT_EQ(once.running, again.running);
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, PointwiseStatisticsTest,
                         testing::Combine(testing::ValuesIn(rows),
                                          testing::Values(Precision::bf16, Precision::fp16)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) + "_" +
                                  std::string(name_of(std::get<1>(each.param)));
                         });

TEST(PointwiseTiles, AreOfWhatTheKernelTakesAlone) {
  const CudaContext context(0);
  const Row row{"", {4, 14, 14, 64}, 64};
  const auto takes = [&](const ConvolutionProblem& problem) {
    return std::ranges::any_of(pointwise_columns, [&](int columns) {
      return make_pointwise_tiles(context, problem, 1, columns).has_value();
    });
  };
  EXPECT_TRUE(takes(problem_of(row, Precision::bf16)));
  EXPECT_FALSE(takes(problem_of(row, Precision::fp32)));
  EXPECT_FALSE(takes(problem_of(row, Precision::tf32)));
  EXPECT_FALSE(takes(problem_of(row, Precision::bf16, {.kernel = 1, .stride = 2})));
  EXPECT_FALSE(takes(problem_of(row, Precision::bf16, {.kernel = 3, .padding = 1})));
  EXPECT_FALSE(takes(problem_of({"", {4, 14, 14, 58}, 64}, Precision::bf16)));
  EXPECT_FALSE(takes(problem_of({"", {4, 14, 14, 64}, 58}, Precision::bf16)));
  EXPECT_FALSE(takes(problem_of({"", {4, 7, 7, 2048}, 512}, Precision::bf16)));
}

}  // namespace
}  // namespace tandem
