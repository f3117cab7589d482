#pragma once

#include "device/any_context.h"
#include "parallel/communicator.h"

namespace tandem {

/// Where a replica computes.
struct ReplicaPlace {
  AnyContext& context;
  Communicator& hosts;
  Communicator& reduction;  ///< over the context's memory
};

}  // namespace tandem
