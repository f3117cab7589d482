#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/data_config.h"
#include "data/data_loader.h"
#include "data/distributed_sampler.h"
#include "graph/fusion.h"
#include "graph/step_plan.h"
#include "parallel/mpi_test.h"
#include "train/replica.h"
#include "train/small_run.h"

// The key invariant: at one global batch, k ranks of N samples, one rank of k micro-batches of N,
// and every mixture give what a plain reference gives: k passes of N samples, one after the other,
// their gradients averaged in double precision, and SGD written out. The reference cuts the slices
// out of the whole global batch itself, and mixes it before where that is asked for.

namespace tandem {
namespace {

constexpr int steps = 12;
constexpr float rate = 0.05F;
constexpr double momentum = 0.9;
constexpr double decay = 1e-2;

/// Largest relative difference (see difference()) after all steps, of the weights or a loss.
/// Measured: 1.1e-7.
constexpr double tolerance = 1e-6;

/// Losses of each step, and the weights at the end.
struct Trajectory {
  std::vector<double> losses;
  std::vector<float> weights;
};

struct SmallData {
  RunConfig config;
  std::unique_ptr<Dataset> train;
  Transform transform;

  /// `augment` are lines of [data.augment].
  SmallData(int accumulate, const std::string& augment)
      : config(small_run(
            "accumulate = " + std::to_string(accumulate) + "\nlabel_smoothing = 0.1\n",
            "lr = 0.05\nmomentum = 0.9\nweight_decay = 1e-2\n[data.augment]\n" + augment)),
        train(std::move(open_datasets(config.data).train)),
        transform(make_transform(config.data, true)) {}

  Graph graph() const { return smooth_graph(config, train->classes()); }
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
Trajectory train_together(int accumulate, const std::string& augment = {}) {
  const SmallData data(accumulate, augment);
  AnyContext context(CpuContext(1));
  const DistributedSampler sampler = data.sampler(world().size(), world().rank(), accumulate);
  Replica replica(data.config, data.graph(), sampler.micro_batch(), context, world());
  replica.broadcast_from_root();
  DataLoader loader(*data.train, data.transform, training_batches(sampler),
                    {.batch = static_cast<int>(sampler.micro_batch()),
                     .seed = data.config.seed,
                     .mix = data.config.data.mix});
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

/// A whole global batch; mixed, where that is asked for, as torchvision defines it: with roll(1).
struct GlobalBatch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> second_labels;
  std::vector<float> weights;

  GlobalBatch(const Batch& batch, const RunConfig& config, std::int64_t step_in_epoch)
      : labels(copy_of<std::int32_t>(batch.labels)), second_labels(labels) {
    const std::vector<float> plain = copy_of<float>(batch.images);
    images = plain;
    weights.assign(labels.size(), 1.0F);
    if (!config.data.mix.on()) return;
    std::vector<float> rolled = plain;
    const auto pixels = static_cast<std::ptrdiff_t>(plain.size() / labels.size());
    std::rotate(rolled.begin(), rolled.end() - pixels, rolled.end());
    std::rotate(second_labels.begin(), second_labels.end() - 1, second_labels.end());
    RandomStream random = mix_stream(config.seed, batch.epoch, step_in_epoch);
    const Mix mix = draw_mix(config.data.mix, config.data.transform.size, random);
    weights.assign(labels.size(), static_cast<float>(mix.weight));
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const int x = static_cast<int>(i) % 8;
      const int y = static_cast<int>(i) / 8 % 8;
      const double own = !mix.box ? mix.weight
                         : y >= mix.box->top && y < mix.box->top + mix.box->height &&
                                 x >= mix.box->left && x < mix.box->left + mix.box->width
                             ? 0.0
                             : 1.0;
      images[i] = static_cast<float>(own * static_cast<double>(plain[i]) +
                                     (1.0 - own) * static_cast<double>(rolled[i]));
    }
  }

  template <typename T>
  static std::vector<T> copy_of(const Tensor& tensor) {
    return {tensor.span<T>().begin(), tensor.span<T>().end()};
  }
};

/// The same by hand, on this rank alone: `slices` passes a step. `share` is the factor of the sum
/// of their gradients, 1 / slices where all is right.
Trajectory train_by_hand(int slices, double share, const std::string& augment = {}) {
  const SmallData data(slices, augment);
  AnyContext context(CpuContext(1));
  const DistributedSampler sampler = data.sampler(1, 0, 1);
  const std::int64_t size = sampler.micro_batch() / slices;
  const Graph graph = fuse(data.graph());
  ParameterStore store(graph, context, true);
  store.initialize(data.config.seed);
  StepPlan plan(graph, store, context, {.batch = size, .training = true, .label_smoothing = 0.1F});
  DataLoader loader(*data.train, data.transform, training_batches(sampler),
                    {.batch = static_cast<int>(sampler.micro_batch()), .seed = data.config.seed});
  const std::span<float> weights = store.all_values().span<float>();
  const std::span<float> gradient = store.all_gradients().span<float>();
  std::vector<double> velocity(weights.size(), 0.0);
  Trajectory result;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> sum(weights.size(), 0.0);
    double loss = 0.0;
    GlobalBatch batch(*loader.next(), data.config, step % sampler.steps_per_epoch());
    for (std::int64_t first = 0; first < data.config.global_batch; first += size) {
      const Targets targets{Tensor(batch.labels.data() + first, {size}, DType::i32),
                            Tensor(batch.second_labels.data() + first, {size}, DType::i32),
                            Tensor(batch.weights.data() + first, {size})};
      const Tensor images(batch.images.data() + first * 64, {size, 8, 8, 1});
      loss += plan.forward(images, targets, size).loss;
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

void expect_reference(int accumulate, const std::string& augment = {}) {
  const int slices = world().size() * accumulate;
  const Trajectory together = train_together(accumulate, augment);
  const Trajectory reference = train_by_hand(slices, 1.0 / slices, augment);
  const double found = difference(together, reference);
  testing::Test::RecordProperty("difference_" + std::to_string(slices), std::to_string(found));
  if (world().rank() == 0) {
    std::printf("%d ranks x %d micro-batches: differ from the reference by %.2e\n", world().size(),
                accumulate, found);
  }
  EXPECT_LT(found, tolerance);
  // A mixed loss depends on the step's weight more than on what was learnt in twelve steps.
  if (augment.empty()) {
    EXPECT_LT(together.losses.back(), together.losses.front());
  }
  // The comparison sees what it is for: mixing, the average forgotten, and one slice too few.
  if (!augment.empty()) {
    EXPECT_GT(difference(together, train_by_hand(slices, 1.0 / slices)), 100 * tolerance);
  }
  if (slices == 1) return;
  EXPECT_GT(difference(together, train_by_hand(slices, 1.0, augment)), 100 * tolerance);
  EXPECT_GT(difference(together, train_by_hand(slices, 1.0 / (slices + 1), augment)),
            100 * tolerance);
}

// Four ranks have four slices without accumulation; fewer ranks reach four by micro-batches.
TEST(DataParallel, WithoutMicroBatches) { expect_reference(1); }
TEST(DataParallel, TwoMicroBatches) { expect_reference(2); }
TEST(DataParallel, FourSlicesHoweverTheyAreMade) { expect_reference(4 / world().size()); }

TEST(DataParallel, Mixup) { expect_reference(2, "mixup = 0.4\n"); }
TEST(DataParallel, Cutmix) { expect_reference(2, "cutmix = 1.0\n"); }
TEST(DataParallel, MixupOrCutmix) {
  expect_reference(4 / world().size(), "mixup = 0.4\ncutmix = 1.0\n");
}

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
