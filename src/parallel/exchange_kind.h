#pragma once

#include <cstdint>

namespace tandem {

/// How ranks with a GPU each exchange gradients.
enum class ExchangeKind : std::uint8_t {
  automatic,  ///< copy where it is possible and no rank has NCCL_P2P_DISABLE set, else nccl
  nccl,       ///< NCCL's kernels
  copy,       ///< the GPUs' copy engines, where the GPUs of one host reach each other's memory
};

}  // namespace tandem
