#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "device/any_context.h"

namespace tandem {

class CudaContext;

/// A second queue of a device, for work that the rest of a step waits for late: it goes on beside
/// what its context is given meanwhile, and fills what that leaves idle. The caller numbers the
/// pieces of work.
class SideQueue {
 public:
  virtual ~SideQueue() = default;

  /// Calls `work`, once, now or before wait() for this or a later piece returns. What it enqueues
  /// in the context comes after all that the context was given before and after earlier pieces.
  /// What it throws comes from here or from wait(): then there is no piece to wait for, and the
  /// queue goes on being of use.
  virtual void run(std::size_t piece, std::function<void()> work) = 0;
  /// What the context is given from here on comes after this piece, which was run, and those before
  /// it.
  virtual void wait(std::size_t piece) = 0;
  /// Of the device's last cache. Work whose data fit in it is short and seldom fills the device.
  virtual std::size_t cache_bytes() const = 0;
};

/// For pieces 0 to `pieces` - 1. Null for a CPU, which does one thing after another. What was run
/// may be captured into a CUDA graph, up to a wait() for the last piece. The context outlives it.
/// All of a context share its side stream: a model's steps were slower where plans before theirs
/// had computed on streams of their own (docs/benchmarks.md, "What the first run lacks").
std::unique_ptr<SideQueue> make_side_queue(AnyContext& context, std::size_t pieces);
std::unique_ptr<SideQueue> make_side_queue(CpuContext& context, std::size_t pieces);
std::unique_ptr<SideQueue> make_side_queue(CudaContext& context, std::size_t pieces);

}  // namespace tandem
