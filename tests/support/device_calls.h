#pragma once

#include <map>
#include <string>

namespace tandem {

/// How often each function was called, by its name; those alone that were.
using DeviceCalls = std::map<std::string, long>;

/// Beside "cudaEventSynchronize": those of its calls whose event had not passed yet.
inline constexpr const char* event_waits = "cudaEventSynchronize that waits";

/// Begins to count, in all threads and from none, the calls of CUDA's functions that hold the host
/// up until the device is done, ask whether it is, allocate, free, make what work needs (streams,
/// events, graphs), capture, copy, or give a device work; of NCCL's that do any of that; of those
/// by which cuDNN and cuBLASLt enqueue kernels; and of those of the driver's that this program
/// itself calls. Libraries have CUDA runtimes of their own, and what they call there is not seen.
void count_device_calls();
/// Ends that; returns what was counted.
DeviceCalls counted_device_calls();

/// What is called while `work` runs. A program that uses this has device_calls.cpp among its
/// sources, which takes the place of those functions and calls them.
template <typename Work>
DeviceCalls device_calls_of(const Work& work) {
  count_device_calls();
  work();
  return counted_device_calls();
}

}  // namespace tandem
