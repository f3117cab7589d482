#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "parallel/operation_marks.h"

namespace tandem {

class CudaContext;

/// How processes wait for each other on the device that they share, or on their devices.
enum class DeviceOrder : std::uint8_t {
  /// A kernel of one thread that asks a counter over and over: the fastest, where the processes
  /// run on the GPU at the same time, as clients of MPS do.
  kernels,
  /// As kernels, but a process tells each other one, and waits for words in its own memory alone:
  /// for processes on several GPUs, where asking another GPU's memory takes long.
  inboxes,
  /// The stream writes and awaits flags, without a kernel (parallel/mapped/flag_barrier.h).
  /// Where the GPU changes from process to process, a kernel that waits would use up its
  /// process's time.
  flags,
};

/// Barriers of the streams of processes that share a GPU, or whose GPUs reach each other: what a
/// stream was given before one is done, in every process, before what any stream is given behind it
/// begins; and memory that was written before can be read behind. Can be captured into a CUDA graph
/// that is launched again.
///
/// Each channel is a sequence of barriers of its own, for the operations of one stream: all
/// processes enqueue the same barriers in a channel in the same order.
class DeviceBarrier {
 public:
  static constexpr int channels = 3;

  /// Bytes of control memory of each process: 256-byte aligned, zeroed, and mapped by all.
  static std::size_t control_bytes();

  /// `controls`: of all processes, by member, as this process maps them. They outlive it, and so
  /// does the context.
  DeviceBarrier(CudaContext& context, DeviceOrder order, std::span<std::byte* const> controls,
                int member);
  ~DeviceBarrier();
  DeviceBarrier(const DeviceBarrier&) = delete;
  DeviceBarrier& operator=(const DeviceBarrier&) = delete;

  /// Enqueues a barrier. `mark`: written for the host as it begins.
  void enqueue(CUstream_st* stream, int channel, const OperationMark& mark = {});
  /// Said behind the last barrier of each operation: keeps flags in order.
  void end_operation(CUstream_st* stream, int channel);

  /// Members whose devices have begun fewer barriers of a channel than another member's: the ones
  /// that are waited for, while all that are waiting stand still. None with flags, and where the
  /// device does not say so within a second.
  std::vector<int> late_members();

  /// Whether a process has given up: what the device did since is void.
  bool given_up() const;
  /// What waits in barriers of this process returns, and what will be enqueued too; but with flags,
  /// in all processes. `drained()`: whether this process's streams have no work left. With flags
  /// this returns once they have none, or after some seconds.
  void give_up(const std::function<bool()>& drained) noexcept;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tandem
