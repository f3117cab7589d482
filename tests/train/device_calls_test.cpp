#include "support/device_calls.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "data/data_config.h"
#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "device/open_context.h"
#include "device/pinned_memory.h"
#include "graph/fusion.h"
#include "parallel/mapped/driver_functions.h"
#include "parallel/self_communicator.h"
#include "train/counted_steps.h"
#include "train/evaluator.h"

// A rank alone, and what counts the calls.

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

class DeviceCallsOfSteps : public testing::TestWithParam<Recipe> {};

TEST_P(DeviceCallsOfSteps, AreOneLaunchAndTheBatchesCopies) {
  SelfCommunicator self;
  CountedSteps run(GetParam().settings, self);

  // The first step runs as it is, the second is captured: the count sees both.
  DeviceCalls first = device_calls_of([&] { run.run(2); });
  EXPECT_GT(take_out(first, {"cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchKernelExC"}), 0);
  EXPECT_GT(take_out(first, {"cudnnBackendExecute", "cublasLtMatmul"}), 0);
  EXPECT_EQ(take_out(first, {"cudaStreamBeginCapture"}), 1);
  EXPECT_EQ(take_out(first, {"cudaStreamEndCapture"}), 1);
  EXPECT_EQ(take_out(first, {"cudaGraphInstantiate"}), 1);
  EXPECT_EQ(take_out(first, {"cudaGraphLaunch"}), 1);

  run.run(3);
  expect_one_launch_and_the_copies(run);
}

INSTANTIATE_TEST_SUITE_P(Recipes, DeviceCallsOfSteps, testing::ValuesIn(recipes()),
                         [](const auto& each) { return each.param.name; });

/// As a step's: the launch of one graph for each batch, its copies and that of its result.
TEST(DeviceCallsOfAnEvaluation, AreOneLaunchAndTheCopiesForEachBatch) {
  constexpr int batches = 12;
  RunConfig config = run_with({"data.test_size=96", "train.eval_batch=8"});
  AnyContext gpu = open_gpu(0);
  SelfCommunicator self;
  const std::unique_ptr<Dataset> test = open_test_dataset(config.data);
  const Transform transform = make_transform(config.data, false);
  const Graph graph = fuse(smooth_graph(config, test->classes()));
  ParameterStore store(graph, gpu, false, {}, config.precision);
  store.initialize(7);
  Evaluator evaluator(*test, transform, graph, store, gpu, self,
                      {.batch = config.eval_batch, .precision = config.precision});
  EXPECT_EQ(evaluator.run().samples, 96);
  DeviceCalls calls = device_calls_of([&] { evaluator.run(); });
  EXPECT_GE(take_out(calls, {"cudaEventQuery"}), batches);
  // That an earlier batch has left the host's memory; hardly ever does it have to wait.
  (void)take_out(calls, {event_waits});
  const DeviceCalls expected{{"cudaGraphLaunch", batches},
                             {"cudaMemcpyAsync", 3 * batches},
                             {"cudaEventSynchronize", batches}};
  EXPECT_EQ(calls, expected);
}

TEST(DeviceCallCount, SeesARunBeingMade) {
  const DeviceCalls calls = device_calls_of([] {
    SelfCommunicator self;
    const CountedSteps run({}, self);
  });
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

TEST(DeviceCallCount, SeesNccl) {
  const DeviceCalls calls = device_calls_of([] {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  });
  EXPECT_EQ(calls, (DeviceCalls{{"ncclGroupStart", 1}, {"ncclGroupEnd", 1}}));
}

TEST(DeviceCallCount, SeesTheDriversFunctionsThatAreLookedUp) {
  AnyContext context = open_gpu(0);
  auto& gpu = std::get<CudaContext>(context);
  void* const memory = gpu.allocate(4);
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const DriverFunctions& driver = driver_functions();
  const DeviceCalls calls = device_calls_of([&] {
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    EXPECT_EQ(driver.address_range(&begin, &bytes, address), CUDA_SUCCESS);
    EXPECT_EQ(begin, address);
    CUstreamBatchMemOpParams write{};
    write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.writeValue.address = address;
    EXPECT_EQ(driver.batch_mem_op(gpu.stream(), 1, &write, 0), CUDA_SUCCESS);
  });
  EXPECT_EQ(calls, (DeviceCalls{{"cuMemGetAddressRange", 1}, {"cuStreamBatchMemOp", 1}}));
  gpu.deallocate(memory);
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
