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

}  // namespace tandem
