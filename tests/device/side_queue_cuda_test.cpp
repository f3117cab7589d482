#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/cuda_graph.h"
#include "device/device_buffer.h"
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

class CudaSideQueueBehindAFailedCapture : public testing::Test {
 protected:
  CudaContext& context() { return context_; }
  /// Enqueues it in the context.
  void set(unsigned char value) {
    TANDEM_CUDA_CHECK(cudaMemsetAsync(byte_.data(), value, 1, context_.stream()));
  }
  /// As captured, of what `enqueue` gives to the context and the queue; with `error` in the
  /// message.
  void fail(const std::string& error, const std::function<void(SideQueue&)>& enqueue) {
    try {
      const CudaGraph captured(context_, [&] { enqueue(*queue_); });
      ADD_FAILURE() << "it was captured";
    } catch (const std::exception& first) {
      EXPECT_NE(std::string(first.what()).find(error), std::string::npos) << first.what();
    }
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(context_.stream(), stream_);
    EXPECT_EQ(value(), 0) << "what was to be captured was done";
  }
  /// What a queue sets aside, at once and captured, is there behind a wait.
  void expect_it_works(SideQueue& queue) {
    const auto set_aside = [&](unsigned char value) {
      queue.run(0, [&] { set(value); });
      queue.wait(0);
    };
    set_aside(++value_);
    EXPECT_EQ(value(), value_);
    CudaGraph graph(context_, [&] { set_aside(++value_); });
    EXPECT_EQ(value(), value_ - 1);
    graph.launch();
    EXPECT_EQ(value(), value_);
  }
  void expect_both_work() {
    expect_it_works(*queue_);
    expect_it_works(*make_side_queue(context_, 1));
  }

 private:
  unsigned char value() {
    unsigned char value = 0;
    copy_to_host(context_, byte_.data(), 1, &value);
    return value;
  }

  CudaContext context_{0};
  CUstream_st* stream_ = context_.stream();
  DeviceBuffer byte_ = DeviceBuffer::zeroed(context_, 1);
  std::unique_ptr<SideQueue> queue_ = make_side_queue(context_, 1);
  unsigned char value_ = 0;
};

TEST_F(CudaSideQueueBehindAFailedCapture, WorksWhereItWasNotWaitedFor) {
  const char* const error = "between run() and wait()";
  fail(error, [&](SideQueue& queue) {
    queue.run(0, [&] { set(99); });
    throw std::runtime_error(error);
  });
  expect_both_work();
}

TEST_F(CudaSideQueueBehindAFailedCapture, WorksWhereItsWorkThrew) {
  const char* const error = "in its work";
  fail(error, [&](SideQueue& queue) {
    queue.run(0, [&] {
      set(99);
      throw std::runtime_error(error);
    });
  });
  expect_both_work();
}

TEST_F(CudaSideQueueBehindAFailedCapture, WorksWhereItsWorkCannotBeCaptured) {
  fail("cudaStreamSynchronize", [&](SideQueue& queue) {
    queue.run(0, [&] {
      set(99);
      context().synchronize();
    });
  });
  expect_both_work();
}

}  // namespace
}  // namespace tandem
