#include "device/memory.h"

#include <cstring>

#include "device/memory_kernels.h"

namespace tandem {

void copy_to_device(CpuContext& /*context*/, const void* host, std::size_t bytes, void* device) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void copy_to_host(CpuContext& /*context*/, const void* device, std::size_t bytes, void* host) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void copy_on_device(CpuContext& /*context*/, const void* from, std::size_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void set_to_zero(CpuContext& /*context*/, void* data, std::size_t bytes) {
  if (bytes > 0) std::memset(data, 0, bytes);
}

void synchronize(CpuContext& /*context*/) {}

std::optional<std::size_t> device_bytes_in_use(const CpuContext& /*context*/) { return {}; }

void copy_to_device(AnyContext& context, const void* host, std::size_t bytes, void* device) {
  std::visit([&](auto& place) { copy_to_device(place, host, bytes, device); }, context);
}

void copy_to_host(AnyContext& context, const void* device, std::size_t bytes, void* host) {
  std::visit([&](auto& place) { copy_to_host(place, device, bytes, host); }, context);
}

void copy_on_device(AnyContext& context, const void* from, std::size_t bytes, void* to) {
  std::visit([&](auto& place) { copy_on_device(place, from, bytes, to); }, context);
}

void set_to_zero(AnyContext& context, void* data, std::size_t bytes) {
  std::visit([&](auto& place) { set_to_zero(place, data, bytes); }, context);
}

void synchronize(AnyContext& context) {
  std::visit([](auto& place) { synchronize(place); }, context);
}

std::optional<std::size_t> device_bytes_in_use(const AnyContext& context) {
  return std::visit([](const auto& place) { return device_bytes_in_use(place); }, context);
}

bool is_host(const AnyContext& context) { return std::holds_alternative<CpuContext>(context); }

}  // namespace tandem
