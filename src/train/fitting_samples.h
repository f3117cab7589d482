#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tandem {

/// The most samples at once, less than `too_many`, which do not fit, of which `fits` holds; within
/// a part in fifty, and a multiple of `step`. 0: not one step. `fits` holds for fewer where it
/// holds for more; it is asked once for each halving.
std::int64_t most_fitting_samples(std::int64_t too_many, std::int64_t step,
                                  const std::function<bool(std::int64_t)>& fits);

/// About the same of memory that grows with the number of samples, and is `bytes` for `too_many`.
/// As many bytes as `room` fit.
std::int64_t fitting_part(std::int64_t too_many, std::int64_t step, std::size_t bytes,
                          std::size_t room);

/// Of memory in bytes what samples, and what does not grow with them, may take: a tenth is left to
/// contexts, kernels, libraries, images and the evaluation.
inline std::size_t with_some_left(std::size_t bytes) { return bytes - bytes / 10; }

/// How to train with fewer samples at once.
constexpr std::string_view fewer_samples =
    "lower train.global_batch or data.size, or raise train.accumulate";

/// "; about 12 samples at once fit: " and `fewer`, of each process where there are several, or what
/// is left to do where hardly a `step` of samples fits.
std::string fitting_samples_text(std::int64_t samples, std::int64_t step, bool several,
                                 std::string_view fewer = fewer_samples);

}  // namespace tandem
