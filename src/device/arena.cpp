#include "device/arena.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "device/memory_kernels.h"

namespace tandem {

Arena::Arena(AnyContext& context, std::size_t bytes, const char* purpose)
    : context_(&context), bytes_(bytes) {
  std::visit(
      [&](auto& device) {
        try {
          data_ = static_cast<std::byte*>(device.allocate(bytes));
        } catch (const Error&) {
          input_error("not enough memory for {}: {} needed; use a smaller batch or model", purpose,
                      format_bytes(bytes));
        }
        set_to_zero(device, data_, bytes);
      },
      context);
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
  if (data_ != nullptr) {
    std::visit([this](auto& device) { device.deallocate(data_); }, *context_);
  }
  data_ = nullptr;
}

}  // namespace tandem
