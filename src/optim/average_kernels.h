#pragma once

#include <cstdint>

#include "device/cpu_context.h"

namespace tandem {

/// average = (1 - weight) * average + weight * values over `count` elements, computed as
/// average + weight * (values - average): what does not change stays as it is to the bit.
void average_into(CpuContext& context, std::int64_t count, float weight, const float* values,
                  float* average);

}  // namespace tandem
