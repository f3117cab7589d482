#pragma once

#include <chrono>
#include <string>

#include "base/error.h"

namespace tandem {

/// Work on the device failed: a kernel went astray, or the device broke. What the process has there
/// is lost, and every later call fails too.
class DeviceError : public SystemError {
 public:
  explicit DeviceError(const std::string& message) : SystemError(message) {}
};

/// How much sooner than the end of a killed process may be seen what comes of it: the memory that
/// others had mapped of it, or their MPS server, is gone before it is. Who has met a DeviceError
/// looks for so long for a rank that was killed, which tells more.
constexpr std::chrono::milliseconds device_fault_precedes_end{2000};

/// The driver or a library has not the device's memory for what it was to do, beside what a context
/// was asked for (OutOfMemory). The device goes on.
class NoDeviceMemory : public SystemError {
 public:
  explicit NoDeviceMemory(const std::string& message) : SystemError(message) {}
};

}  // namespace tandem
