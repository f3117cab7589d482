#pragma once

#include <vector>

#include "parallel/communicator.h"

namespace tandem {

/// What a wait for devices ends with that took too long though all ranks give signs of life:
/// `error` with other reasons than a wait for another rank's call has. `late`: ranks whose devices
/// have not come as far as the others', as the whole job counts them; empty where that is not
/// known.
CommunicationTimeout device_timeout(const CommunicationTimeout& error, std::vector<int> late);

/// The same of starting NCCL, which the ranks do together.
CommunicationTimeout nccl_start_timeout(const CommunicationTimeout& error);

}  // namespace tandem
