#include "device/arena.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "device/memory_kernels.h"
#include "device/open_context.h"
#include "device/out_of_memory.h"

namespace tandem {

Arena::Arena(AnyContext& context, std::size_t bytes, const char* purpose)
    : context_(&context), bytes_(bytes) {
  std::visit(
      [&](auto& device) {
        try {
          data_ = static_cast<std::byte*>(device.allocate(bytes));
        } catch (const OutOfMemory&) {
          const auto memory = device_memory(context);
          throw OutOfMemory(
              fmt::format("not enough memory for {}: {} needed{}; use a smaller batch or model",
                          purpose, format_bytes(bytes),
                          memory ? fmt::format(", {} free on {}", format_bytes(memory->free),
                                               memory->device)
                                 : std::string()),
              bytes);
        }
        set_to_zero(device, data_, bytes);
      },
      context);
}

Arena Arena::borrowed(std::byte* data, std::size_t bytes) {
  Arena arena;
  arena.data_ = data;
  arena.bytes_ = bytes;
  return arena;
}

Arena::~Arena() { release(); }

Arena::Arena(Arena&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this != &other) {
    release();
    context_ = std::exchange(other.context_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Arena::release() noexcept {
  if (data_ != nullptr && context_ != nullptr) {
    std::visit([this](auto& device) { device.deallocate(data_); }, *context_);
  }
  data_ = nullptr;
}

}  // namespace tandem
