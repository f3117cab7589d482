#include "support/device_calls.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "device/open_context.h"
#include "device/pinned_memory.h"
#include "parallel/self_communicator.h"
#include "train/device_run.h"
#include "train/run_parts.h"

// What the host asks of CUDA while a run's steps go on: for each step the launch of one graph and
// the copies of its batches, and nothing that holds the host up, takes memory or makes anything.

namespace tandem {
namespace {

struct Recipe {
  std::string name;
  std::vector<std::string> settings;
};

std::vector<Recipe> recipes() {
  return {
      {"fp32", {}},
      {"bf16", {"train.precision=\"bf16\""}},
      {"bf16_accumulated",
       {"train.precision=\"bf16\"", "train.accumulate=2", "train.ema_decay=0.8",
        "optimizer.clip_norm=0.5", "model.dropout=0.4", "data.augment.mixup=0.4"}},
      {"fp16", {"train.precision=\"fp16\"", "optimizer.kind=\"adamw\"", "optimizer.lr=1e-3"}},
  };
}

/// One rank's steps of a run, made of the same parts and driven as Trainer does it, with its
/// loader at work.
class Steps {
 public:
  explicit Steps(std::vector<std::string> settings)
      : config_(on_gpu(std::move(settings))), parts_(config_, self_) {
    parts_.replica.broadcast_from_root();
    parts_.loader.start(0);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) note(parts_.replica.step(next_batch_, 0.01F, false));
    note(parts_.replica.settle());
  }

  std::int64_t samples() const { return samples_; }
  const RunConfig& config() const { return config_; }

 private:
  static RunConfig on_gpu(std::vector<std::string> settings) {
    settings.emplace_back("train.device=\"cuda\"");
    return run_with(settings);
  }
  void note(const StepResult& result) {
    EXPECT_EQ(result.failed_step, 0);
    samples_ += result.sums.samples;
  }

  RunConfig config_;
  SelfCommunicator self_;
  RunParts parts_;
  const NextBatch next_batch_ = [this]() -> const Batch& { return *parts_.loader.next(); };
  std::int64_t samples_ = 0;
};

/// How many of these there were; they are no longer among the calls.
long take_out(DeviceCalls& calls, const std::vector<std::string>& names) {
  long count = 0;
  for (const std::string& name : names) {
    const auto found = calls.extract(name);
    if (found) count += found.mapped();
  }
  return count;
}

class DeviceCallsOfSteps : public testing::TestWithParam<Recipe> {};

TEST_P(DeviceCallsOfSteps, AreOneLaunchAndTheBatchesCopies) {
  constexpr int steps = 30;
  Steps run(GetParam().settings);
  const int accumulate = run.config().accumulate;

  // The first step runs as it is, the second is captured: the count sees both.
  DeviceCalls first = device_calls_of([&] { run.run(2); });
  EXPECT_GT(take_out(first, {"cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchKernelExC"}), 0);
  EXPECT_GT(take_out(first, {"cudnnBackendExecute", "cublasLtMatmul"}), 0);
  EXPECT_EQ(take_out(first, {"cudaStreamBeginCapture"}), 1);
  EXPECT_EQ(take_out(first, {"cudaStreamEndCapture"}), 1);
  EXPECT_EQ(take_out(first, {"cudaGraphInstantiate"}), 1);
  EXPECT_EQ(take_out(first, {"cudaGraphLaunch"}), 1);

  run.run(3);
  const std::int64_t samples = run.samples();
  DeviceCalls calls = device_calls_of([&] { run.run(steps); });
  EXPECT_EQ(run.samples() - samples, steps * run.config().global_batch);
  // A step's end is asked for, as often as it takes, once the following step is launched.
  EXPECT_GE(take_out(calls, {"cudaEventQuery"}), steps);
  // A micro-batch travels to the device, and from there to where the step reads it; what lay there
  // is kept. Before it travels the host makes sure that an earlier one has left its memory. With
  // one micro-batch a step, that was of a step whose end has been seen, so that the host never
  // waits. With several, all but the first ask for one of the step under way, whose end has not.
  if (accumulate > 1) (void)take_out(calls, {event_waits});
  const DeviceCalls expected{{"cudaGraphLaunch", steps},
                             {"cudaMemcpyAsync", 3 * steps * accumulate},
                             {"cudaEventSynchronize", steps * accumulate}};
  EXPECT_EQ(calls, expected);
}

INSTANTIATE_TEST_SUITE_P(Recipes, DeviceCallsOfSteps, testing::ValuesIn(recipes()),
                         [](const auto& each) { return each.param.name; });

TEST(DeviceCallCount, SeesARunBeingMade) {
  const DeviceCalls calls = device_calls_of([] { const Steps run({}); });
  for (const char* name : {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost",
                           "cudaStreamSynchronize", "cudaStreamCreateWithPriority",
                           "cudaStreamDestroy", "cudaEventCreateWithFlags", "cudaEventDestroy"}) {
    EXPECT_EQ(calls.count(name), 1U) << name;
  }
}

TEST(DeviceCallCount, SeesEachCallOnce) {
  AnyContext context = open_gpu(0);
  auto& gpu = std::get<CudaContext>(context);
  const DeviceCalls calls = device_calls_of([&] {
    void* const memory = gpu.allocate(4);
    const PinnedMemory<int> host(gpu);
    TANDEM_CUDA_CHECK(cudaMemcpy(memory, host.get(), 4, cudaMemcpyHostToDevice));
    TANDEM_CUDA_CHECK(cudaMemset(memory, 0, 4));
    CudaGraph graph(gpu, [&] { TANDEM_CUDA_CHECK(cudaMemsetAsync(memory, 0, 4, gpu.stream())); });
    graph.launch();
    gpu.synchronize();
    TANDEM_CUDA_CHECK(cudaDeviceSynchronize());
    gpu.deallocate(memory);
  });
  const DeviceCalls expected{{"cudaMalloc", 1},
                             {"cudaHostAlloc", 1},
                             {"cudaMemcpy", 1},
                             {"cudaMemset", 1},
                             {"cudaStreamBeginCapture", 1},
                             {"cudaMemsetAsync", 1},
                             {"cudaStreamEndCapture", 1},
                             {"cudaGraphInstantiate", 1},
                             {"cudaGraphLaunch", 1},
                             {"cudaStreamSynchronize", 1},
                             {"cudaDeviceSynchronize", 1},
                             {"cudaFree", 1},
                             {"cudaGraphExecDestroy", 1},
                             {"cudaGraphDestroy", 1},
                             {"cudaFreeHost", 1}};
  EXPECT_EQ(calls, expected);
}

TEST(DeviceCallCount, TellsEventsThatAreWaitedFor) {
  AnyContext context = open_gpu(0);
  auto& gpu = std::get<CudaContext>(context);
  CudaEvent event;
  event.record(gpu);
  gpu.synchronize();
  const DeviceCalls passed = device_calls_of([&] { event.synchronize(); });
  EXPECT_EQ(passed, (DeviceCalls{{"cudaEventSynchronize", 1}}));

  const auto rest = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
  TANDEM_CUDA_CHECK(cudaLaunchHostFunc(gpu.stream(), rest, nullptr));
  event.record(gpu);
  const DeviceCalls waited = device_calls_of([&] { event.synchronize(); });
  EXPECT_EQ(waited, (DeviceCalls{{"cudaEventSynchronize", 1}, {event_waits, 1}}));
}

}  // namespace
}  // namespace tandem
