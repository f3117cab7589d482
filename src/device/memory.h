#pragma once

#include <cstddef>
#include <optional>

#include "device/any_context.h"

namespace tandem {

// Bytes in a context's memory and the host's. Each is done on return, after whatever was enqueued
// in the context before.

void copy_to_device(AnyContext& context, const void* host, std::size_t bytes, void* device);
void copy_to_host(AnyContext& context, const void* device, std::size_t bytes, void* host);
/// Within the context's memory; the ranges do not overlap.
void copy_on_device(AnyContext& context, const void* from, std::size_t bytes, void* to);
void set_to_zero(AnyContext& context, void* data, std::size_t bytes);
/// Waits until everything enqueued in the context is done.
void synchronize(AnyContext& context);

/// Bytes of a device's memory that are in use, by whatever runs there; nothing where it is the
/// host's.
std::optional<std::size_t> device_bytes_in_use(const AnyContext& context);

/// Whether the context's memory is the host's, so that its tensors can be read and written as they
/// are.
bool is_host(const AnyContext& context);

}  // namespace tandem
