#pragma once

#include <memory>

#include "device/any_context.h"
#include "parallel/communicator.h"

namespace tandem {

/// How ranks on different GPUs communicate. Time-outs are those of the host's communicator.
struct DeviceLinkOptions {
  /// Blocks of threads that a collective may take from computing; 0: as many as NCCL likes. Every
  /// rank uses the same.
  int min_blocks = 0;
  int max_blocks = 0;
};

/// The ranks of `host` as a communicator over the context's memory: Nccl, or Self for one rank;
/// null where that memory is the host's, which `host` itself takes. Collective; both outlive it.
/// Throws InputError on all ranks where two of them share a GPU.
std::unique_ptr<Communicator> make_device_communicator(AnyContext& context, Communicator& host,
                                                       const DeviceLinkOptions& options = {});

}  // namespace tandem
