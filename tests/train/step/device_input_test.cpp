#include "train/step/device_input.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/input_cuda.h"
#include "data/raw_cases.h"
#include "device/arena.h"
#include "device/cuda_check.h"
#include "device/cuda_graph.h"
#include "device/memory.h"
#include "device/pinned_memory.h"

namespace tandem::testing {
namespace {

RawCase case_named(const std::string& name) {
  for (const RawCase& made : raw_cases()) {
    if (made.name == name) return made;
  }
  throw Error("no case " + name);
}

/// The inputs and labels of many steps, kept on the device so that nothing waits for it on the way.
class Kept {
 public:
  Kept(AnyContext& context, std::size_t batches, std::size_t values, std::size_t labels)
      : context_(context),
        values_(values),
        labels_(labels),
        memory_(context, batches * (values + labels) * sizeof(float), "a test") {}

  /// Enqueues the copies of batch `i`.
  void keep(std::size_t i, const Tensor& images, const Tensor& labels) {
    copy(images.raw(), values_ * sizeof(float), at(i));
    copy(labels.raw(), labels_ * sizeof(std::int32_t), at(i) + values_ * sizeof(float));
  }
  std::vector<float> images(std::size_t i) {
    std::vector<float> found(values_);
    copy_to_host(context_, at(i), values_ * sizeof(float), found.data());
    return found;
  }
  std::vector<std::int32_t> labels(std::size_t i) {
    std::vector<std::int32_t> found(labels_);
    copy_to_host(context_, at(i) + values_ * sizeof(float), labels_ * sizeof(std::int32_t),
                 found.data());
    return found;
  }

 private:
  std::byte* at(std::size_t i) const {
    return memory_.data() + i * (values_ + labels_) * sizeof(float);
  }
  void copy(const void* from, std::size_t bytes, void* to) {
    TANDEM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                      std::get<CudaContext>(context_).stream()));
  }

  AnyContext& context_;
  std::size_t values_;
  std::size_t labels_;
  Arena memory_;
};

/// Steps of `micro_batches` micro-batches, captured, with batches that are uploaded as a run does.
void run_steps(const std::string& name, int micro_batches) {
  const RawCase made = case_named(name);
  AnyContext context(std::in_place_type<CudaContext>, 0);
  auto& cuda = std::get<CudaContext>(context);
  RawCaseLoaders loaders(
      made, {.prefetch = 2,
             .allocate = [&](std::size_t bytes) { return allocate_pinned(cuda, bytes); },
             .hold = DeviceInput::hold(micro_batches)});
  DeviceInput input(cuda, loaders.raw->raw_layout(), micro_batches);
  const auto micros = static_cast<std::size_t>(micro_batches);
  const Shape shape{made.batch, made.transform.size, made.transform.size, made.transform.channels};
  const auto count = static_cast<std::size_t>(shape.elements());
  const Arena images(context, micros * count * sizeof(float), "a test");
  const auto image = [&](int micro) {
    return Tensor(images.data() + static_cast<std::size_t>(micro) * count * sizeof(float), shape);
  };
  CudaGraph graph(cuda, [&] {
    for (int micro = 0; micro < micro_batches; ++micro) {
      enqueue_input(cuda, input.current(micro), InputSpec(loaders.transform()), image(micro));
    }
  });
  const auto upload = [&] {
    for (int micro = 0; micro < micro_batches; ++micro) input.upload(loaders.raw->next()->raw);
  };
  constexpr std::size_t steps = 20;
  Kept kept(context, steps * micros, count, static_cast<std::size_t>(made.batch));
  upload();
  for (std::size_t step = 0; step < steps; ++step) {
    for (int micro = 0; micro < micro_batches; ++micro) input.advance();
    graph.launch();
    for (int micro = 0; micro < micro_batches; ++micro) {
      kept.keep(step * micros + static_cast<std::size_t>(micro), image(micro),
                input.current(micro).labels);
    }
    upload();
  }
  for (std::size_t i = 0; i < steps * micros; ++i) {
    const Batch& wanted = *loaders.floats->next();
    const std::vector<float> found = kept.images(i);
    for (std::size_t at = 0; at < count; ++at) {
      ASSERT_NEAR(found[at], wanted.images.span<float>()[at], raw_tolerance(made))
          << "batch " << i << ", value " << at;
    }
    const auto labels = wanted.labels.span<std::int32_t>();
    EXPECT_EQ(kept.labels(i), std::vector<std::int32_t>(labels.begin(), labels.end())) << i;
  }
}

TEST(DeviceInput, BringsTheBatchesInOrder) { run_steps("augmented", 1); }
TEST(DeviceInput, BringsMixedBatches) { run_steps("large", 1); }
TEST(DeviceInput, BringsTheMicroBatchesOfAStep) { run_steps("mixed_on_ranks", 3); }

TEST(DeviceInput, RefusesMoreThanItHasPlacesFor) {
  AnyContext context(std::in_place_type<CudaContext>, 0);
  auto& cuda = std::get<CudaContext>(context);
  const RawBatchLayout layout({.height = 4, .width = 4, .channels = 1}, 2, false);
  const std::shared_ptr<std::byte> memory = allocate_pinned(cuda, layout.bytes());
  std::fill_n(memory.get(), layout.bytes(), std::byte{0});
  DeviceInput input(cuda, layout);
  EXPECT_THROW(input.advance(), Error);
  input.upload(layout.view(memory.get()));
  input.upload(layout.view(memory.get()));
  EXPECT_THROW(input.upload(layout.view(memory.get())), Error);
  input.advance();
  input.upload(layout.view(memory.get()));
  const RawBatchLayout other({.height = 64, .width = 64, .channels = 3}, 2, false);
  const std::shared_ptr<std::byte> more = allocate_pinned(cuda, other.bytes());
  input.advance();
  EXPECT_THROW(input.upload(other.view(more.get())), Error);
}

}  // namespace
}  // namespace tandem::testing
