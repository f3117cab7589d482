#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/memory_kernels.h"
#include "device/side_queue.h"

namespace tandem {
namespace {

CUstream_st* stream_of(CudaContext& context, SideQueue& queue) {
  CUstream_st* stream = nullptr;
  queue.run(0, [&] { stream = context.stream(); });
  queue.wait(0);
  return stream;
}

// A step may be slower where plans before its own have computed on further streams.
TEST(CudaSideQueue, SharesItsStreamWithAllOfItsContext) {
  CudaContext context(0);
  CudaContext other(0);
  const auto queue = make_side_queue(context, 1);
  CUstream_st* const first = stream_of(context, *queue);
  EXPECT_NE(first, context.stream());
  EXPECT_EQ(stream_of(context, *make_side_queue(context, 1)), first);
  EXPECT_EQ(stream_of(context, *queue), first);
  EXPECT_NE(stream_of(other, *make_side_queue(other, 1)), first);
}

TEST(CudaSideQueue, ComesBehindWhatWasThereAndBeforeWhatWaits) {
  CudaContext context(0);
  constexpr std::size_t bytes = std::size_t{1} << 28;  // long enough to be overtaken
  auto* const memory = static_cast<unsigned char*>(context.allocate(bytes));
  const auto fill = [&](int value) {
    TANDEM_CUDA_CHECK(cudaMemsetAsync(memory, value, bytes, context.stream()));
  };
  const auto first = make_side_queue(context, 1);
  const auto second = make_side_queue(context, 1);
  std::array<unsigned char, 2> ends{};
  for (int round = 0; round < 4; ++round) {
    fill(1);
    first->run(0, [&] { fill(2); });
    second->run(0, [&] { fill(3); });
    second->wait(0);
    copy_to_host(context, memory, 1, ends.data());
    copy_to_host(context, memory + bytes - 1, 1, &ends[1]);
    EXPECT_EQ(ends, (std::array<unsigned char, 2>{3, 3}));
  }
  context.deallocate(memory);
}

}  // namespace
}  // namespace tandem
