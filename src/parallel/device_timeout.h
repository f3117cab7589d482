#pragma once

#include <string>
#include <vector>

#include "parallel/communicator.h"

namespace tandem {

/// What a wait for devices ends with that took too long though all ranks give signs of life:
/// `error` with other reasons than a wait for another rank's call has. `late`: ranks whose devices
/// have not come as far as the others', as the whole job counts them; empty where that is not
/// known.
CommunicationTimeout device_timeout(const CommunicationTimeout& error, std::vector<int> late);

/// A time-out of the wait `waited` ("waited 20 s in barrier") for the devices of `late`, one at
/// least, whose ranks give signs of life.
CommunicationTimeout late_devices(const std::string& waited, std::vector<int> late);

/// As device_timeout(), of starting NCCL, which the ranks do together.
CommunicationTimeout nccl_start_timeout(const CommunicationTimeout& error);

}  // namespace tandem
