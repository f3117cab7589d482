#pragma once

#include <cstddef>
#include <optional>

namespace tandem {

class CpuContext;
class CudaContext;

// What device/memory.h does, for each kind of context.

void copy_to_device(CpuContext& context, const void* host, std::size_t bytes, void* device);
void copy_to_host(CpuContext& context, const void* device, std::size_t bytes, void* host);
void copy_on_device(CpuContext& context, const void* from, std::size_t bytes, void* to);
void set_to_zero(CpuContext& context, void* data, std::size_t bytes);
void synchronize(CpuContext& context);
std::optional<std::size_t> device_bytes_in_use(const CpuContext& context);

void copy_to_device(CudaContext& context, const void* host, std::size_t bytes, void* device);
void copy_to_host(CudaContext& context, const void* device, std::size_t bytes, void* host);
void copy_on_device(CudaContext& context, const void* from, std::size_t bytes, void* to);
void set_to_zero(CudaContext& context, void* data, std::size_t bytes);
void synchronize(CudaContext& context);
std::optional<std::size_t> device_bytes_in_use(const CudaContext& context);

}  // namespace tandem
