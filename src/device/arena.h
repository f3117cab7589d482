#pragma once

#include <cstddef>
#include <functional>

#include "device/any_context.h"

namespace tandem {

/// One block of a device's memory, 256-byte aligned, cleared to zero, freed with the arena. Views
/// into it (Tensor) do not keep it alive. The context must outlive the arena.
class Arena {
 public:
  static constexpr std::size_t alignment = 256;

  Arena() = default;
  /// Throws OutOfMemory naming `purpose` and the size where the memory cannot be had.
  Arena(AnyContext& context, std::size_t bytes, const char* purpose);
  /// Somebody else's memory, which outlives it.
  static Arena borrowed(std::byte* data, std::size_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// `offset` rounded up to the next aligned one.
  static constexpr std::size_t align(std::size_t offset) {
    return (offset + alignment - 1) / alignment * alignment;
  }

 private:
  void release() noexcept;

  AnyContext* context_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Where arenas of so many bytes come from.
using ArenaSource = std::function<Arena(std::size_t bytes)>;

}  // namespace tandem
