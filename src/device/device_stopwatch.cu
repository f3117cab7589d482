#include <cuda_runtime_api.h>

#include "device/cuda_check.h"
#include "device/device_buffer.h"
#include "device/device_stopwatch.h"

namespace tandem {
namespace {

using Nanoseconds = unsigned long long;

__device__ Nanoseconds now() {
  Nanoseconds time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void start_kernel(Nanoseconds* started) { *started = now(); }

__global__ void stop_kernel(const Nanoseconds* started, float* seconds) {
  *seconds = 1e-9F * static_cast<float>(now() - *started);
}

}  // namespace

struct DeviceStopwatch::Handles {
  Handles() = default;
  // What fails here failed before, and was said then.
  ~Handles() {
    if (joins != nullptr) (void)cudaEventDestroy(joins);
    if (forks != nullptr) (void)cudaEventDestroy(forks);
    if (side != nullptr) (void)cudaStreamDestroy(side);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  cudaStream_t side = nullptr;
  cudaEvent_t forks = nullptr;
  cudaEvent_t joins = nullptr;
  DeviceBuffer started;  // Nanoseconds
};

DeviceStopwatch::DeviceStopwatch(CudaContext& context)
    : context_(context), handles_(std::make_unique<Handles>()) {
  context.activate();
  int least = 0;
  int greatest = 0;
  TANDEM_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // Of high priority: what the stream computes next must not hold up the clock.
  TANDEM_CUDA_CHECK(cudaStreamCreateWithPriority(&handles_->side, cudaStreamNonBlocking, greatest));
  TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&handles_->forks, cudaEventDisableTiming));
  TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&handles_->joins, cudaEventDisableTiming));
  handles_->started = DeviceBuffer(context, sizeof(Nanoseconds));
}

DeviceStopwatch::~DeviceStopwatch() = default;

void DeviceStopwatch::start() {
  start_kernel<<<1, 1, 0, context_.stream()>>>(handles_->started.as<Nanoseconds>());
  TANDEM_CUDA_CHECK_LAUNCH();
}

void DeviceStopwatch::stop(float* seconds) {
  Handles& h = *handles_;
  TANDEM_CUDA_CHECK(cudaEventRecord(h.forks, context_.stream()));
  TANDEM_CUDA_CHECK(cudaStreamWaitEvent(h.side, h.forks, 0));
  stop_kernel<<<1, 1, 0, h.side>>>(h.started.as<const Nanoseconds>(), seconds);
  TANDEM_CUDA_CHECK_LAUNCH();
  TANDEM_CUDA_CHECK(cudaEventRecord(h.joins, h.side));
}

void DeviceStopwatch::join() {
  TANDEM_CUDA_CHECK(cudaStreamWaitEvent(context_.stream(), handles_->joins, 0));
}

}  // namespace tandem
