#pragma once

#include <string>

namespace tandem {

/// Names what this thread does until the end of the scope, for profilers: an NVTX range where the
/// CUDA backend is built, else nothing. Costs next to nothing while no profiler listens.
class TraceRange {
 public:
  explicit TraceRange(const char* name);
  explicit TraceRange(const std::string& name) : TraceRange(name.c_str()) {}
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace tandem
