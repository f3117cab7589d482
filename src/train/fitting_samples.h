#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "train/run_config.h"

namespace tandem {

/// The most samples at once, less than `too_many`, which do not fit, of which `fits` holds; within
/// a part in fifty, and a multiple of `step`. 0: not one step. `fits` holds for fewer where it
/// holds for more; it is asked once for each halving.
std::int64_t most_fitting_samples(std::int64_t too_many, std::int64_t step,
                                  const std::function<bool(std::int64_t)>& fits);

/// Of memory in bytes what samples may take: a tenth is left to contexts, kernels and libraries.
inline std::size_t with_some_left(std::size_t bytes) { return bytes / 10 * 9; }

/// What more samples than fit of a run ends with: fitting_samples_text() of what
/// most_fitting_samples finds, with gradients kept between micro-batches, as where train.accumulate
/// is raised. `bytes`: that so many samples of such a run take, of `room`.
std::string fitting_advice(
    const RunConfig& config, std::int64_t too_many, bool several, std::size_t room,
    const std::function<std::size_t(const RunConfig& accumulating, std::int64_t samples)>& bytes);

/// "; about 12 samples at once fit: lower train.global_batch or data.size, or raise
/// train.accumulate", of each process where there are several, or what is left to do where hardly a
/// `step` of samples fits.
std::string fitting_samples_text(std::int64_t samples, std::int64_t step, bool several);

}  // namespace tandem
