#pragma once

#include <cstdint>

namespace tandem {

/// How ranks on several GPUs exchange gradients.
enum class ExchangeKind : std::uint8_t {
  automatic,  ///< direct where it is possible and no rank has NCCL_P2P_DISABLE set, else nccl
  nccl,       ///< NCCL's kernels
  direct,  ///< a kernel that sums in the GPUs' memory, where those of one host reach each other's
};

}  // namespace tandem
