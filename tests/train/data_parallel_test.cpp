#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/data_config.h"
#include "data/data_loader.h"
#include "data/distributed_sampler.h"
#include "graph/fusion.h"
#include "graph/model_file.h"
#include "graph/step_plan.h"
#include "parallel/mpi_test.h"
#include "train/replica.h"
#include "train/small_run.h"

// The key invariant: at one global batch, k ranks of N samples, one rank of k micro-batches of N,
// and every mixture give what a plain reference gives: k passes of N samples, one after the other,
// their gradients averaged in double precision, and SGD written out.

namespace tandem {
namespace {

constexpr int steps = 12;
constexpr float rate = 0.05F;
constexpr double momentum = 0.9;
constexpr double decay = 1e-2;

/// Largest relative difference (see largest_difference()) after all steps, of any weight or loss.
/// Measured: 2.5e-7, and 3.4e-6 where a sum that is rounded otherwise moves an activation over
/// ReLU's kink.
constexpr double tolerance = 1e-5;

/// Losses of each step, and the weights at the end.
struct Trajectory {
  std::vector<double> losses;
  std::vector<float> weights;
};

struct SmallData {
  RunConfig config;
  std::unique_ptr<Dataset> train;
  Transform transform;

  explicit SmallData(int accumulate)
      : config(small_run("accumulate = " + std::to_string(accumulate) + "\nlabel_smoothing = 0.1\n",
                         "lr = 0.05\nmomentum = 0.9\nweight_decay = 1e-2\n")),
        train(std::move(open_datasets(config.data).train)),
        transform(make_transform(config.data, true)) {}

  Graph graph() const {
    return load_model(find_model(config.model), {.classes = train->classes(),
                                                 .channels = config.data.transform.channels,
                                                 .size = config.data.transform.size});
  }
  DistributedSampler sampler(int world, int rank, int accumulate) const {
    return DistributedSampler({.size = train->size(),
                               .global_batch = config.global_batch,
                               .world = world,
                               .rank = rank,
                               .accumulate = accumulate,
                               .seed = config.seed});
  }
};

/// What Tandem does: all ranks together, `accumulate` micro-batches each.
Trajectory train_together(int accumulate) {
  const SmallData data(accumulate);
  AnyContext context(CpuContext(1));
  const DistributedSampler sampler = data.sampler(world().size(), world().rank(), accumulate);
  Replica replica(data.config, data.graph(), sampler.micro_batch(), context, world());
  replica.broadcast_from_root();
  DataLoader loader(*data.train, data.transform, training_batches(sampler),
                    {.batch = static_cast<int>(sampler.micro_batch()), .seed = data.config.seed});
  Trajectory result;
  for (int step = 0; step < steps; ++step) {
    const StepResult done =
        replica.step([&]() -> const Batch& { return *loader.next(); }, rate, false);
    EXPECT_EQ(done.sums.samples, data.config.global_batch);
    result.losses.push_back(done.sums.loss / static_cast<double>(done.sums.samples));
  }
  replica.check_bits();
  const Tensor values = replica.store().all_values();
  result.weights.assign(values.span<float>().begin(), values.span<float>().end());
  return result;
}

/// The same by hand, on this rank alone: `slices` passes a step. `share` is the factor of the sum
/// of their gradients, 1 / slices where all is right.
Trajectory train_by_hand(int slices, double share) {
  const SmallData data(slices);
  AnyContext context(CpuContext(1));
  const DistributedSampler sampler = data.sampler(1, 0, slices);
  const Graph graph = fuse(data.graph());
  ParameterStore store(graph, context, true);
  store.initialize(data.config.seed);
  StepPlan plan(graph, store, context,
                {.batch = sampler.micro_batch(), .training = true, .label_smoothing = 0.1F});
  DataLoader loader(*data.train, data.transform, training_batches(sampler),
                    {.batch = static_cast<int>(sampler.micro_batch()), .seed = data.config.seed});
  const std::span<float> weights = store.all_values().span<float>();
  const std::span<float> gradient = store.all_gradients().span<float>();
  std::vector<double> velocity(weights.size(), 0.0);
  Trajectory result;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> sum(weights.size(), 0.0);
    double loss = 0.0;
    for (int slice = 0; slice < slices; ++slice) {
      const Batch* batch = loader.next();
      loss += plan.forward(batch->images, batch->labels, batch->valid).loss;
      plan.backward(false, [](std::span<const std::size_t>) {});
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(gradient[i]);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double g = share * sum[i] + decay * static_cast<double>(weights[i]);
      velocity[i] = momentum * velocity[i] + g;
      weights[i] = static_cast<float>(weights[i] - static_cast<double>(rate) * velocity[i]);
    }
    result.losses.push_back(loss / static_cast<double>(data.config.global_batch));
  }
  result.weights.assign(weights.begin(), weights.end());
  return result;
}

/// The larger of: the largest relative difference of a loss, and the norm of the weights'
/// difference over the norm of the weights.
double difference(const Trajectory& a, const Trajectory& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]) / b.losses[i]);
  }
  double squares = 0.0;
  double scale = 0.0;
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    const double x = a.weights[i];
    const double y = b.weights[i];
    squares += (x - y) * (x - y);
    scale += y * y;
  }
  return std::max(largest, std::sqrt(squares / scale));
}

void expect_reference(int accumulate) {
  const int slices = world().size() * accumulate;
  const Trajectory together = train_together(accumulate);
  const Trajectory reference = train_by_hand(slices, 1.0 / slices);
  const double found = difference(together, reference);
  testing::Test::RecordProperty("difference_" + std::to_string(slices), std::to_string(found));
  if (world().rank() == 0) {
    std::printf("%d ranks x %d micro-batches: differ from the reference by %.2e\n", world().size(),
                accumulate, found);
  }
  EXPECT_LT(found, tolerance);
  EXPECT_LT(together.losses.back(), together.losses.front());
  if (slices == 1) return;
  // The comparison sees what it is for: the average forgotten, and one slice too few.
  EXPECT_GT(difference(together, train_by_hand(slices, 1.0)), 100 * tolerance);
  EXPECT_GT(difference(together, train_by_hand(slices, 1.0 / (slices + 1))), 100 * tolerance);
}

// Four ranks have four slices without accumulation; fewer ranks reach four by micro-batches.
TEST(DataParallel, WithoutMicroBatches) { expect_reference(1); }
TEST(DataParallel, TwoMicroBatches) { expect_reference(2); }
TEST(DataParallel, FourSlicesHoweverTheyAreMade) { expect_reference(4 / world().size()); }

// The same slices give the same losses and weights, whoever computes them: compared here with what
// one rank does for all of them.
TEST(DataParallel, EveryRankHasTheSameBitsInWeightsAndLosses) {
  const Trajectory mine = train_together(1);
  std::string bytes(mine.weights.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), mine.weights.data(), bytes.size());
  expect_same_everywhere(bytes);
  std::string losses;
  for (const double loss : mine.losses) losses += fmt::format("{} ", loss);
  expect_same_everywhere(losses);
}

}  // namespace
}  // namespace tandem
