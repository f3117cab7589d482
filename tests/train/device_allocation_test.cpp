#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "data/data_loader.h"
#include "device/open_context.h"
#include "parallel/device_communicator.h"
#include "parallel/device_test.h"
#include "support/allocations.h"
#include "support/device_allocations.h"
#include "support/repeats.h"
#include "train/device_run.h"

// Captured steps allocate nothing once they run: neither with operator new on the host, in any
// thread, nor on the device. The loader, whose requests and decoders do, has ended before.

namespace tandem {
namespace {

constexpr std::int64_t batches = 4;

/// Batches 0 to 3, so that the loader's threads have nothing to do behind them.
BatchSource first_batches(const DistributedSampler& sampler) {
  return [source = training_batches(sampler)](std::int64_t ordinal) -> std::optional<BatchRequest> {
    return ordinal < batches ? source(ordinal) : std::nullopt;
  };
}

/// One rank's training with the same few batches over and over.
class RepeatedTraining {
 public:
  explicit RepeatedTraining(const RunConfig& config)
      : context_(std::in_place_type<CudaContext>, gpu().device().index),
        reduction_(make_device_communicator(context_, hosts())),
        data_(std::move(open_datasets(config.data).train)),
        transform_(make_transform(config.data, true)),
        sampler_({.size = data_->size(),
                  .global_batch = config.global_batch,
                  .world = hosts().size(),
                  .rank = hosts().rank(),
                  .accumulate = config.accumulate,
                  .seed = config.seed}),
        loader_(*data_, transform_, first_batches(sampler_),
                {.batch = static_cast<int>(sampler_.micro_batch()),
                 .seed = config.seed,
                 .mix = config.data.mix,
                 .raw = true,
                 .allocate = pinned_allocator(context_),
                 .hold = static_cast<int>(batches)}),
        replica_(config, smooth_graph(config, data_->classes()), sampler_.micro_batch(), context_,
                 hosts(), *reduction_, RawInput{loader_.raw_layout(), InputSpec(transform_)}) {
    replica_.broadcast_from_root();
    for (std::int64_t i = 0; i < batches; ++i) batches_.push_back(loader_.next());
    EXPECT_EQ(loader_.next(), nullptr);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) note(replica_.step(next_batch_, 0.01F, false));
    note(replica_.settle());
  }

  std::int64_t samples() const { return samples_; }
  std::size_t free_memory() const { return device_memory(context_).value().free; }

 private:
  void note(const StepResult& result) { samples_ += result.sums.samples; }

  AnyContext context_;
  std::unique_ptr<Communicator> reduction_;
  std::unique_ptr<Dataset> data_;
  Transform transform_;
  DistributedSampler sampler_;
  DataLoader loader_;
  Replica replica_;
  std::vector<const Batch*> batches_;
  std::size_t next_ = 0;
  const NextBatch next_batch_ = [this]() -> const Batch& {
    return *batches_[next_++ % batches_.size()];
  };
  std::int64_t samples_ = 0;
};

void expect_none_in_a_step(const std::vector<std::string>& settings) {
  constexpr int steps = 30;
  const RunConfig config = run_with(settings);
  RepeatedTraining training(config);
  training.run(5);  // the first as it is, the second captures
  hosts().barrier();
  const std::int64_t samples = training.samples();
  const std::size_t free = training.free_memory();
  const long on_device = device_allocations();
  EXPECT_GT(on_device, 0) << "nobody counts";
  const long on_host = allocations_of([&] { training.run(steps); });
  EXPECT_EQ(on_host, 0);
  EXPECT_EQ(device_allocations(), on_device);
  EXPECT_EQ(training.samples() - samples, steps * config.global_batch);
  hosts().barrier();  // ranks that share a GPU see all of it
  if (!under_a_tool()) {
    EXPECT_EQ(training.free_memory(), free);
  }
}

TEST(TrainAllocationOnGpu, AStepNeedsNone) { expect_none_in_a_step({}); }

TEST(TrainAllocationOnGpu, AStepOfMicroBatchesInBf16NeedsNone) {
  expect_none_in_a_step({"train.precision=\"bf16\"", "train.accumulate=2", "train.ema_decay=0.8",
                         "optimizer.clip_norm=0.5", "model.dropout=0.4", "data.augment.mixup=0.4"});
}

TEST(TrainAllocationOnGpu, AStepInFp16NeedsNone) {
  expect_none_in_a_step(
      {"train.precision=\"fp16\"", "optimizer.kind=\"adamw\"", "optimizer.lr=1e-3"});
}

TEST(TrainAllocationOnGpu, AStepWithStatisticsOverAllRanksNeedsNone) {
  expect_none_in_a_step({"train.sync_batch_norm=true"});
}

TEST(TrainAllocationOnGpu, TheCountSeesAnAllocationOfEitherKind) {
  const long on_host = allocations_of([] {
    int* volatile kept = new int(0);  // or compilers leave both out
    delete kept;
  });
  EXPECT_EQ(on_host, 1);
  const long before = device_allocations();
  gpu().deallocate(gpu().allocate(1));
  EXPECT_EQ(device_allocations(), before + 1);
}

}  // namespace
}  // namespace tandem
