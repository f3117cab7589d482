#include <gtest/gtest.h>

#include "device/cuda_context.h"
#include "device/side_queue.h"

namespace tandem {
namespace {

CUstream_st* stream_of(CudaContext& context, SideQueue& queue) {
  CUstream_st* stream = nullptr;
  queue.run(0, [&] { stream = context.stream(); });
  queue.wait(0);
  return stream;
}

// Steps may be slower where plans before theirs have computed on streams of their own.
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

}  // namespace
}  // namespace tandem
