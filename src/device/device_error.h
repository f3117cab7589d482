#pragma once

#include <string>

#include "base/error.h"

namespace tandem {

/// Work on the device failed: a kernel went astray, or the device broke. What the process has there
/// is lost, and every later call fails too.
class DeviceError : public SystemError {
 public:
  explicit DeviceError(const std::string& message) : SystemError(message) {}
};

/// The driver or a library has not the device's memory for what it was to do, beside what a context
/// was asked for (OutOfMemory). The device goes on.
class NoDeviceMemory : public SystemError {
 public:
  explicit NoDeviceMemory(const std::string& message) : SystemError(message) {}
};

}  // namespace tandem
