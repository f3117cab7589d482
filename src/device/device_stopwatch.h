#pragma once

#include <memory>

#include "device/cuda_context.h"

namespace tandem {

/// How long a context's stream takes from one place to another, told by the device's clock, in each
/// launch of a captured graph too; to about a microsecond.
class DeviceStopwatch {
 public:
  explicit DeviceStopwatch(CudaContext& context);
  ~DeviceStopwatch();
  DeviceStopwatch(const DeviceStopwatch&) = delete;
  DeviceStopwatch& operator=(const DeviceStopwatch&) = delete;

  /// Enqueues: time begins once everything enqueued so far is done.
  void start();
  /// Enqueues: time ends once everything enqueued so far is done; the seconds are written into
  /// device memory, on another stream, so that what is enqueued next does not wait for that.
  void stop(float* seconds);
  /// What is enqueued from here on comes after the writing. Called after each stop(), before a
  /// capture ends or `seconds` is used.
  void join();

 private:
  struct Handles;
  CudaContext& context_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace tandem
