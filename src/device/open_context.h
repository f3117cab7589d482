#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/any_context.h"

namespace tandem {

class KernelChoices;

enum class DeviceKind : std::uint8_t { automatic, cpu, cuda };

/// Whether Tandem was built with the CUDA backend.
bool built_with_cuda();

/// How many GPUs this build can use here: 0 where Tandem was built without CUDA.
int usable_gpus();

/// Why a driver that is loaded here gives this build no GPU, as a phrase; mostly empty.
std::string gpu_problem();

/// The GPU of that index, which is seen. Throws InputError where Tandem was built without CUDA or
/// there is no such GPU.
AnyContext open_gpu(int index);

/// The UUID of the context's GPU; empty for the CPU.
std::string device_uuid(const AnyContext& context);

/// A device's memory, in bytes.
struct DeviceMemory {
  std::string device;  ///< "NVIDIA H200"
  std::size_t total = 0;
  std::size_t free = 0;  ///< nobody uses it
};
/// Of the context's device; nothing for the CPU.
std::optional<DeviceMemory> device_memory(const AnyContext& context);

/// The kernels chosen for the context's device; null for the CPU, which chooses none by timing.
KernelChoices* kernel_choices(AnyContext& context);

/// What kernels have prepared on the context's device and use: whoever holds it, while they are
/// made anew, spares them the work. None for the CPU.
std::vector<std::shared_ptr<const void>> prepared_work(AnyContext& context);

/// What computes, for people: "4 compute threads" or "NVIDIA H200".
std::string device_text(const AnyContext& context);

}  // namespace tandem
