#pragma once

#include <string>
#include <vector>

#include "device/any_context.h"
#include "parallel/placement/device_choice.h"

namespace tandem {

/// UUIDs of the GPUs that this process sees, in CUDA's order, for choose_device(); none where
/// Tandem was built without CUDA.
std::vector<std::string> visible_gpus();

/// Collective, over a host kind: the GPU that choose_device() chooses, with its errors; it is this
/// process's place from then on (base/process_place.h). Throws InputError where Tandem was built
/// without CUDA.
AnyContext open_rank_gpu(Communicator& host);

/// Versions of CUDA, cuDNN, cuBLASLt and NCCL that this program is linked to; none where Tandem was
/// built without CUDA.
std::vector<DeviceFact> library_versions();

/// What of the context must be the same on every rank, for check_same_facts(): library_versions()
/// and the GPU's compute capability. Of the CPU nothing.
std::vector<DeviceFact> device_facts(const AnyContext& context);

/// The GPU's name and compute capability, for mixed_models(); empty of a CPU.
std::string device_model(const AnyContext& context);

}  // namespace tandem
