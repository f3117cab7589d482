#include "train/ranks/data_parallel_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "data/data_config.h"
#include "data/data_loader.h"
#include "data/distributed_sampler.h"
#include "device/pinned_memory.h"
#include "graph/fusion.h"
#include "graph/step_plan.h"
#include "parallel/gather_text.h"
#include "tensor/host_tensor.h"
#include "train/small_run.h"
#include "train/step/device_input.h"
#include "train/step/replica.h"
#include "train/values.h"

namespace tandem {
namespace {

constexpr int steps = 12;
constexpr float rate = 0.05F;
constexpr double momentum = 0.9;
constexpr double decay = 1e-2;

struct SmallData {
  RunConfig config;
  std::unique_ptr<Dataset> train;
  Transform transform;

  explicit SmallData(const SmallRun& run)
      : config(small_run(fmt::format("accumulate = {}\nlabel_smoothing = 0.1\n", run.accumulate),
                         fmt::format("lr = 0.05\nmomentum = 0.9\nweight_decay = 1e-2\n"
                                     "[data.augment]\n{}[parallel]\nfolded_ranks = {}\n",
                                     run.augment, run.folded))),
        train(std::move(open_datasets(config.data).train)),
        transform(make_transform(config.data, true)) {}

  Graph graph() const { return smooth_graph(config, train->classes()); }
  DistributedSampler sampler(int world, int rank) const {
    return DistributedSampler({.size = train->size(),
                               .global_batch = config.global_batch,
                               .world = world,
                               .rank = rank,
                               .accumulate = config.accumulate,
                               .folded = config.folded_ranks,
                               .seed = config.seed});
  }
};

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

std::string bytes_of(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

Trajectory train_together(const SmallRun& run, const ReplicaPlace& place) {
  SmallData data(run);
  data.config.precision = run.precision;
  data.config.gradient_compression = run.compression;
  data.config.shared_state = run.shared_state;
  data.config.sharded_update = run.sharded_update;
  data.config.update_in_backward = run.update_in_backward;
  data.config.average.decay = run.average_decay;
  data.config.sync_batch_norm = run.sync_batch_norm;
  if (run.bucket_bytes > 0) {
    data.config.first_bucket_bytes = run.bucket_bytes;
    data.config.bucket_bytes = run.bucket_bytes;
  }
  Communicator& ranks = place.hosts;
  const bool raw = !is_host(place.context);
  const DistributedSampler sampler = data.sampler(ranks.size(), ranks.rank());
  DataLoader loader(*data.train, data.transform, training_batches(sampler),
                    {.batch = static_cast<int>(sampler.micro_batch()),
                     .seed = data.config.seed,
                     .mix = data.config.data.mix,
                     .raw = raw,
                     .allocate = pinned_allocator(place.context),
                     .hold = raw ? DeviceInput::hold(run.accumulate) : 1});
  std::optional<RawInput> raw_input;
  if (raw) raw_input = RawInput{loader.raw_layout(), InputSpec(data.transform)};
  Replica replica(data.config, data.graph(), sampler.micro_batch(), place.context, ranks,
                  place.reduction, raw_input);
  replica.broadcast_from_root();
  Trajectory result;
  const auto note = [&](const StepResult& done) {
    if (done.sums.samples == 0) return;  // a device is a step behind
    EXPECT_EQ(done.sums.samples, data.config.global_batch);
    if (ranks.size() > 1) {
      EXPECT_GT(done.exposed_seconds, 0.0);
    }
    EXPECT_LT(done.exposed_seconds, 60.0);
    result.losses.push_back(done.sums.loss / static_cast<double>(done.sums.samples));
  };
  for (int step = 0; step < steps; ++step) {
    if (run.before_step) run.before_step(step);
    note(replica.step([&]() -> const Batch& { return *loader.next(); }, rate, false));
  }
  note(replica.settle());
  EXPECT_EQ(result.losses.size(), static_cast<std::size_t>(steps));
  if (run.bucket_bytes > 0) {
    EXPECT_GT(replica.bucketer().buckets().size(), 4U);
  }
  if (run.before_check) run.before_check(replica);
  replica.check_bits();
  result.weights = values_of(place.context, replica.store().all_values());
  result.statistics = values_of(place.context, replica.store().all_buffers());
  if (replica.average() != nullptr) {
    result.average = values_of(place.context, replica.average()->store().all_values());
  }
  result.momentum = values_of(place.context, replica.optimizer().state().front().tensor);
  return result;
}

Trajectory train_by_hand(int slices, double share, const std::string& augment) {
  const SmallData data({.augment = augment});
  AnyContext context(CpuContext(1));
  const DistributedSampler sampler = data.sampler(1, 0);
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
  const std::span<const float> statistics = store.all_buffers().span<float>();
  result.statistics.assign(statistics.begin(), statistics.end());
  return result;
}

double difference(const Trajectory& a, const Trajectory& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]) / b.losses[i]);
  }
  return std::max(largest, distance(a.weights, b.weights));
}

void expect_reference(const SmallRun& run, const ReplicaPlace& place, const Bounds& bounds) {
  const int slices = place.hosts.size() * run.folded * run.accumulate;
  const Trajectory together = train_together(run, place);
  const Trajectory reference = train_by_hand(slices, 1.0 / slices, run.augment);
  const double found = difference(together, reference);
  testing::Test::RecordProperty("difference_" + std::to_string(slices), std::to_string(found));
  if (place.hosts.rank() == 0) {
    std::printf(
        "%d processes x %d ranks x %d micro-batches, %s: differ from the reference by %.2e\n",
        place.hosts.size(), run.folded, run.accumulate, std::string(name_of(run.precision)).c_str(),
        found);
  }
  EXPECT_LT(found, bounds.right);
  // A mixed loss depends on the step's weight more than on what was learnt in twelve steps.
  if (run.augment.empty()) {
    EXPECT_LT(together.losses.back(), together.losses.front());
  }
  // The comparison sees what it is for: mixing, the average forgotten, and one slice too few.
  if (!run.augment.empty()) {
    EXPECT_GT(difference(together, train_by_hand(slices, 1.0 / slices)), bounds.wrong);
  }
  if (slices == 1) return;
  EXPECT_GT(difference(together, train_by_hand(slices, 1.0, run.augment)), bounds.wrong);
  EXPECT_GT(difference(together, train_by_hand(slices, 1.0 / (slices + 1), run.augment)),
            bounds.wrong);
}

void expect_synchronised(SmallRun run, const ReplicaPlace& place, const Bounds& bounds) {
  run.sync_batch_norm = true;
  const Trajectory whole = train_by_hand(run.accumulate, 1.0 / run.accumulate);
  const Trajectory together = train_together(run, place);
  const double found = difference(together, whole);
  const double statistics = distance(together.statistics, whole.statistics);
  if (place.hosts.rank() == 0) {
    std::printf(
        "%d processes x %d ranks x %d micro-batches, %s, synchronised: differ by %.2e, "
        "running statistics by %.2e\n",
        place.hosts.size(), run.folded, run.accumulate, std::string(name_of(run.precision)).c_str(),
        found, statistics);
  }
  EXPECT_LT(found, bounds.right);
  EXPECT_LT(statistics, bounds.right);
  const std::string bytes = bytes_of(together.statistics);
  for (const std::string& other : all_gather_text(place.hosts, bytes)) EXPECT_EQ(other, bytes);
  if (place.hosts.size() * run.folded == 1) return;
  // The comparison sees what it is for.
  run.sync_batch_norm = false;
  const Trajectory apart = train_together(run, place);
  const double lost = difference(apart, whole);
  const double lost_statistics = distance(apart.statistics, whole.statistics);
  if (place.hosts.rank() == 0) std::printf("apart by %.2e, %.2e\n", lost, lost_statistics);
  EXPECT_GT(lost, bounds.wrong);
  EXPECT_GT(lost_statistics, bounds.wrong);
}

void expect_same_on_all_ranks(const SmallRun& run, const ReplicaPlace& place) {
  const Trajectory mine = train_together(run, place);
  std::string bytes = bytes_of(mine.weights);
  for (const double loss : mine.losses) bytes += fmt::format("{} ", loss);
  for (const std::string& other : all_gather_text(place.hosts, bytes)) EXPECT_EQ(other, bytes);
}

void expect_compression_to_change_little(const ReplicaPlace& place, double noise) {
  const Trajectory compressed = train_together({.compression = GradientCompression::bf16}, place);
  const double apart = difference(compressed, train_together({}, place));
  if (place.hosts.size() == 1) {
    EXPECT_EQ(apart, 0.0);
    return;
  }
  EXPECT_GT(apart, noise);
  EXPECT_LT(apart, 1.0 / 256);  // bf16 has 8 bits
}

}  // namespace tandem
