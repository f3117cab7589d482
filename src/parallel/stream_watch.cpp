#include "parallel/stream_watch.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/idle_wait.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "parallel/device_timeout.h"

namespace tandem {
namespace {

/// Calls `query()` until it no longer says that the device is not ready.
template <typename Query>
void wait_while_not_ready(Communicator& communicator, std::string_view what, const Query& query,
                          Awaited awaited) {
  // The device may have nothing to do while this thread sleeps; steps take less than this.
  IdleWait idle(std::chrono::milliseconds(200));
  const auto done = [&] {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) {
      TANDEM_CUDA_CHECK(status);
      return true;
    }
    (void)cudaGetLastError();  // that is an answer, no error
    idle.pause();
    return false;
  };
  try {
    // By reference, or std::function would allocate for what the lambda captures, in every step.
    communicator.wait_until(
        std::cref(done), [&] { return std::string(what); }, awaited);
  } catch (const CommunicationTimeout& error) {
    if (!error.ranks().empty()) throw;
    const bool alone = communicator.size() == 1;
    throw device_timeout(error, alone ? std::vector{communicator.rank()} : error.behind());
  }
}

}  // namespace

void wait_for_event(Communicator& communicator, CUevent_st* event, std::string_view what,
                    Awaited awaited) {
  wait_while_not_ready(
      communicator, what, [&] { return cudaEventQuery(event); }, awaited);
}

void wait_for_device(Communicator& communicator, const CudaContext& context,
                     std::string_view what) {
  wait_while_not_ready(
      communicator, what, [&] { return cudaStreamQuery(context.stream()); }, Awaited::ranks);
}

}  // namespace tandem
