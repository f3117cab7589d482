#pragma once

#include <cstddef>
#include <span>

namespace tandem {

/// The ranks that share a device, or a host whose CPUs compute, as far as they can keep what they
/// have in common once: memory that all of them use, and the order of its use.
class SharedDevice {
 public:
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  /// How many ranks share the device, and this one's place among them.
  virtual int members() const = 0;
  virtual int member() const = 0;
  /// Collective over all ranks of the communicator: whether memory of these sizes, in bytes, can be
  /// allocated, as far as that can be told before; an arena of each member's is as many sizes as
  /// there are members. True where only trying tells.
  virtual bool has_room(std::span<const std::size_t> /*sizes*/) { return true; }
  /// Collective over all ranks of the communicator: zeroed memory, 256-byte aligned, that all
  /// members use. It is the communicator's and lives as long.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// Collective over all ranks of the communicator: zeroed memory of this member's own, 256-byte
  /// aligned, for an arena that Communicator::attach() then sums without copies; it lives as long
  /// as the communicator. Null where that is no matter of the memory.
  virtual std::byte* allocate_arena(std::size_t /*bytes*/) { return nullptr; }
  /// Enqueues: what each member's context was given before is done, and seen by all of them, before
  /// what their contexts are given next begins.
  virtual void wait_for_each_other() = 0;

 protected:
  SharedDevice() = default;
  ~SharedDevice() = default;
};

}  // namespace tandem
