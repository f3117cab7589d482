#pragma once

#include <cstdint>

#include "device/cpu_context.h"
#include "optim/step_control.h"

namespace tandem {

class CudaContext;

/// average = (1 - weight) * average + weight * values over `count` elements, computed as
/// average + weight * (values - average): what does not change stays as it is to the bit. With a
/// control, in the context's memory, the weight is its average_weight, and where the update is
/// skipped the average stays as it is.
void average_into(CpuContext& context, std::int64_t count, float weight, const float* values,
                  float* average, const StepControl* control = nullptr);
void average_into(CudaContext& context, std::int64_t count, float weight, const float* values,
                  float* average, const StepControl* control = nullptr);

}  // namespace tandem
