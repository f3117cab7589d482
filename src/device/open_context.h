#pragma once

#include <cstdint>
#include <string>

#include "device/any_context.h"

namespace tandem {

enum class DeviceKind : std::uint8_t { automatic, cpu, cuda };

/// Whether Tandem was built with the CUDA backend.
bool built_with_cuda();

/// How many GPUs this build can use here: 0 where Tandem was built without CUDA.
int usable_gpus();

/// Whether `kind` means the CPU on this machine.
bool means_cpu(DeviceKind kind);

/// The GPU of that index, which is seen. Throws InputError where Tandem was built without CUDA or
/// there is no such GPU.
AnyContext open_gpu(int index);

/// The UUID of the context's GPU; empty for the CPU.
std::string device_uuid(const AnyContext& context);

/// What computes, for people: "4 compute threads" or "NVIDIA H200".
std::string device_text(const AnyContext& context);

}  // namespace tandem
