#pragma once

#include <array>
#include <optional>

#include "device/any_context.h"
#include "tensor/precision.h"

namespace tandem {

class CudaContext;

constexpr std::array all_precisions{Precision::fp32, Precision::tf32, Precision::bf16,
                                    Precision::fp16};

/// What a device does at best, measured: the rates that floors are made of. Absent is what it
/// cannot do, or had no memory left to measure.
struct Ceilings {
  /// Bytes read and written a second by a copy far larger than the caches.
  std::optional<double> bytes_per_second{};
  /// Operations (two a multiply-add) a second of a large matrix product, by precision in the order
  /// of all_precisions.
  std::array<std::optional<double>, all_precisions.size()> operations_per_second{};

  std::optional<double> operations(Precision precision) const {
    return operations_per_second[static_cast<std::size_t>(precision)];
  }
};

/// Measures for about a second; on the CPU with the context's threads.
Ceilings measure_ceilings(AnyContext& context);

/// Into `ceilings`, what can be measured.
void measure_ceilings(CpuContext& context, Ceilings& ceilings);
void measure_ceilings(CudaContext& context, Ceilings& ceilings);

}  // namespace tandem
