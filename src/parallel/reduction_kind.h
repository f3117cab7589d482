#pragma once

#include <cstdint>

namespace tandem {

/// How gradients are summed over the ranks.
enum class ReductionKind : std::uint8_t {
  automatic,  ///< two_level where ranks share a device and it is not the slower one, else flat
  flat,       ///< among all ranks alike: Mpi, Nccl
  two_level,  ///< within each device first, then among one rank of each: Colocated, Hierarchical
};

}  // namespace tandem
