#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/step_plan.h"
#include "parallel/mpi_test.h"
#include "train/step/communicator_sum.h"

// Synchronised batch normalisation: k ranks of N samples against one rank that has all k N, whose
// kernels know nothing of other ranks.

namespace tandem {
namespace {

constexpr std::int64_t global = 16;

/// Of the largest element of a gradient or statistic. Measured: 2e-6.
constexpr double tolerance = 2e-5;

struct Result {
  std::vector<float> gradients;  ///< of the mean loss over the global batch
  std::vector<float> statistics;
  double loss = 0.0;
};

Graph model(bool fused) {
  const Graph graph = load_model(find_model("resnet8"), {.classes = 4, .channels = 3, .size = 8});
  return fused ? fuse(graph) : graph;
}

/// Two steps on samples [first, first + count) of the global batch. Their distribution moves along
/// it, so that the ranks' own statistics differ; the mean is far from zero.
Result run(const Graph& graph, std::int64_t first, std::int64_t count, RankSum* ranks) {
  AnyContext context(CpuContext(1));
  ParameterStore store(graph, context, true);
  store.initialize(3);
  StepPlan plan(graph, store, context, {.batch = count, .training = true, .rank_sum = ranks});
  Result result;
  for (int step = 0; step < 2; ++step) {
    std::vector<float> pixels;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = first; i < first + count; ++i) {
      RandomStream random(17, fmt::format("{} {}", step, i));
      for (int p = 0; p < 8 * 8 * 3; ++p) {
        pixels.push_back(30.0F + static_cast<float>(i) * 0.2F + random.normal());
      }
      labels.push_back(static_cast<std::int32_t>(i % 4));
    }
    result.loss += plan.forward(Tensor(pixels.data(), {count, 8, 8, 3}),
                                {Tensor(labels.data(), {count}, DType::i32)}, count)
                       .loss;
    plan.backward(false, [](std::span<const std::size_t>) {});
  }
  const std::span<const float> gradients = store.all_gradients().span<float>();
  result.gradients.assign(gradients.begin(), gradients.end());
  const std::span<const float> statistics = store.all_buffers().span<float>();
  result.statistics.assign(statistics.begin(), statistics.end());
  return result;
}

/// What this rank and the others get together.
Result run_together(const Graph& graph, bool synchronised) {
  const std::int64_t mine = global / world().size();
  CommunicatorSum sum(world());
  Result result = run(graph, mine * world().rank(), mine, synchronised ? &sum : nullptr);
  world().all_reduce(view(result.gradients), ReduceOp::sum);
  for (float& each : result.gradients) each /= static_cast<float>(world().size());
  std::vector<float> loss{static_cast<float>(result.loss)};
  world().all_reduce(view(loss), ReduceOp::sum);
  result.loss = loss[0];
  return result;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  double scale = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return largest / scale;
}

TEST(SyncBatchNorm, RanksTogetherAreOneRankWithTheWholeBatch) {
  for (const bool fused : {true, false}) {
    const Graph graph = model(fused);
    const Result whole = run(graph, 0, global, nullptr);
    const Result together = run_together(graph, true);
    const double gradients = difference(together.gradients, whole.gradients);
    const double statistics = difference(together.statistics, whole.statistics);
    if (world().rank() == 0) {
      std::printf("%d ranks: gradients differ by %.2e, statistics by %.2e, loss by %.2e\n",
                  world().size(), gradients, statistics, std::abs(together.loss - whole.loss));
    }
    EXPECT_LT(gradients, tolerance);
    EXPECT_LT(statistics, tolerance);
    EXPECT_NEAR(together.loss, whole.loss, 1e-5 * whole.loss);
    std::string bytes(together.statistics.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), together.statistics.data(), bytes.size());
    expect_same_everywhere(bytes);
    if (world().size() == 1) continue;
    // The comparison sees what it is for.
    const Result apart = run_together(graph, false);
    EXPECT_GT(difference(apart.gradients, whole.gradients), 100 * tolerance);
    EXPECT_GT(difference(apart.statistics, whole.statistics), 100 * tolerance);
  }
}

/// The mean over all ranks' samples and pixels of one channel, and the variance, divided by their
/// number less one.
struct Moments {
  double mean = 0.0;
  double variance = 0.0;
};

Moments moments_of(const std::vector<float>& pixels, std::size_t channel) {
  std::vector<double> values;
  for (std::size_t i = channel; i < pixels.size(); i += 3) {
    values.push_back(static_cast<double>(pixels[i]));
  }
  const auto count = static_cast<double>(values.size());
  Moments moments;
  for (const double value : values) moments.mean += value / count;
  for (const double value : values) {
    moments.variance += (value - moments.mean) * (value - moments.mean) / (count - 1.0);
  }
  return moments;
}

// Ioffe and Szegedy 2015 over the global batch, in double precision.
TEST(SyncBatchNorm, RunningStatisticsAreThoseOfAllRanks) {
  const Graph graph = parse_model(
      "channels = 3\nsize = 4\nclasses = 2\n"
      "[[node]]\nname = 'norm'\nop = 'batch_norm'\n"
      "[[node]]\nname = 'pool'\nop = 'global_average_pool'\n"
      "[[node]]\nname = 'fc'\nop = 'classifier'\n",
      "model", {});
  constexpr std::int64_t all = 12;
  const std::int64_t mine = all / world().size();
  std::vector<float> pixels;
  RandomStream random(11);
  for (std::int64_t i = 0; i < all * 4 * 4 * 3; ++i) {
    pixels.push_back(5.0F + static_cast<float>(i) * 0.01F + random.normal());
  }
  const auto begin = static_cast<std::ptrdiff_t>(mine * world().rank() * 4 * 4 * 3);
  std::vector<float> own(pixels.begin() + begin,
                         pixels.begin() + begin + static_cast<std::ptrdiff_t>(mine * 4 * 4 * 3));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(mine), 1);

  CommunicatorSum sum(world());
  AnyContext context(CpuContext(1));
  ParameterStore store(graph, context, true);
  store.initialize(3);
  StepPlan plan(graph, store, context, {.batch = mine, .training = true, .rank_sum = &sum});
  static_cast<void>(plan.forward(Tensor(own.data(), {mine, 4, 4, 3}),
                                 {Tensor(labels.data(), {mine}, DType::i32)}, mine));
  const auto running = [&](const char* name, std::size_t channel) {
    return static_cast<double>(store.buffer(name).span<float>()[channel]);
  };
  for (std::size_t c = 0; c < 3; ++c) {
    const Moments moments = moments_of(pixels, c);
    EXPECT_NEAR(running("norm.running_mean", c), 0.1 * moments.mean, 1e-5);
    EXPECT_NEAR(running("norm.running_var", c), 0.9 + 0.1 * moments.variance, 1e-5);
  }
}

TEST(CommunicatorSum, AddsDoublesInRankOrder) {
  CommunicatorSum sum(world());
  EXPECT_EQ(sum.ranks(), world().size());
  // Lost in a float: 1e-12 beside 1.
  std::vector<double> values{1.0 + 1e-12 * world().rank(), -2.0 * world().rank()};
  sum.sum(values);
  double first = 0.0;
  double second = 0.0;
  for (int rank = 0; rank < world().size(); ++rank) {
    first += 1.0 + 1e-12 * rank;
    second += -2.0 * rank;
  }
  EXPECT_EQ(values[0], first);
  EXPECT_EQ(values[1], second);
}

}  // namespace
}  // namespace tandem
