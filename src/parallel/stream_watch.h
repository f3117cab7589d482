#pragma once

#include <string_view>

#include "parallel/communicator.h"

/// CUDA's event, whose handle is a pointer to this.
struct CUevent_st;

namespace tandem {

class CudaContext;

// How the host waits for a device, which may wait for other ranks: by asking, never by blocking, so
// that it gives signs of life, hears of NCCL's errors, and loses patience with ranks that hang and
// with devices that do.
// Each throws as Communicator::wait_until() does, with `what` ("the step's end") in the message,
// and SystemError where work on the device failed. Not during a capture.

/// Until the event, which was recorded outside of any capture, has passed.
void wait_for_event(Communicator& communicator, CUevent_st* event, std::string_view what,
                    Awaited awaited = Awaited::ranks);
/// Until all that was enqueued in the context is done.
void wait_for_device(Communicator& communicator, const CudaContext& context, std::string_view what);

}  // namespace tandem
