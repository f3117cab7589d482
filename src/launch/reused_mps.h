#pragma once

#include <sys/types.h>

#include <vector>

#include "launch/host_slots.h"
#include "parallel/placement/launched_job.h"
#include "parallel/placement/mps_control.h"

namespace tandem {

// What the user's own MPS daemon (--reuse-mps) brings along, looked at before anything starts.

/// Throws InputError where the environment's CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, which ranks under
/// that daemon get, is no share.
void require_mps_share(const SlotRequest& request, const ReadEnvironment& environment);

/// Throws InputError where the daemon has so many clients already on one of the GPUs that `used`
/// names that its server does not take the ranks too. `host`: all of this host's GPUs, whatever
/// CUDA_VISIBLE_DEVICES leaves of them. Where NVML names none of the clients, as from within a
/// container, they are not counted, unless the GPU is this host's only one: there all clients are.
/// A daemon that does not answer is the ranks' to tell.
void require_free_clients(const SlotRequest& request, const GpuList& host,
                          const std::vector<GpuInfo>& used, const MpsControl& daemon);

}  // namespace tandem
