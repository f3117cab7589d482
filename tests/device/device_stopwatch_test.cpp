#include "device/device_stopwatch.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "device/memory_kernels.h"

namespace tandem {
namespace {

TEST(DeviceStopwatch, TellsEachLaunchOfAGraphHowLongItsMiddleTook) {
  CudaContext context(0);
  constexpr std::size_t bytes = std::size_t{1} << 28;
  // So many that all else, which a tool slows down more, is little beside them.
  constexpr int clears = 64;
  void* memory = context.allocate(bytes);
  auto* seconds = static_cast<float*>(context.allocate(sizeof(float)));
  DeviceStopwatch watch(context);
  const auto clear = [&] {
    TANDEM_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, context.stream()));
  };
  const auto enqueue = [&] {
    clear();
    watch.start();
    for (int i = 0; i < clears; ++i) clear();
    watch.stop(seconds);
    clear();
    watch.join();
  };
  const auto expect_share = [&](const CudaEvent& begin, const CudaEvent& end) {
    float told = 0.0F;
    copy_to_host(context, seconds, sizeof told, &told);
    const double whole = end.seconds_since(begin);
    EXPECT_GT(told, 0.6 * whole);
    EXPECT_LT(told, whole);
  };
  CudaEvent begin;
  CudaEvent end;
  enqueue();
  CudaGraph graph(context, enqueue);
  for (int launch = 0; launch < 4; ++launch) {
    set_to_zero(context, seconds, sizeof(float));
    begin.record(context);
    graph.launch();
    end.record(context);
    end.synchronize();
    expect_share(begin, end);
  }
  context.deallocate(seconds);
  context.deallocate(memory);
}

}  // namespace
}  // namespace tandem
