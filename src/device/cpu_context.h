#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace tandem {

/// The CPU as a device: a number of compute threads, the oneDNN engine and stream, and memory.
/// Work is done by the time a call returns, so there is nothing to synchronise.
///
/// The threads are OpenMP's, shared by oneDNN and Tandem's own kernels. One context is used by one
/// thread at a time.
class CpuContext {
 public:
  /// `threads` >= 1: how many cores a kernel may use. Results do not depend on who else runs, but
  /// may differ in the last bits between thread counts. OMP_THREAD_LIMIT, where set, bounds it.
  explicit CpuContext(int threads);
  ~CpuContext();
  CpuContext(CpuContext&&) noexcept;
  CpuContext& operator=(CpuContext&&) noexcept;

  int threads() const { return threads_; }
  /// Makes this context's thread count that of the calling thread. OpenMP's setting belongs to the
  /// calling thread, so a plan calls this before it runs.
  void activate() const;

  /// 256-byte aligned memory, not cleared. Throws Error naming the size where there is none.
  void* allocate(std::size_t bytes);
  void deallocate(void* memory) noexcept;

  /// oneDNN's engine and stream; complete in device/onednn.h, which only .cpp files include.
  struct OneDnn;
  OneDnn& onednn() { return *onednn_; }

 private:
  int threads_;
  std::unique_ptr<OneDnn> onednn_;
};

/// The oneDNN that runs: "2.6.3".
std::string onednn_version();

}  // namespace tandem
