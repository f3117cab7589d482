#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/parameters.h"

namespace tandem {

/// Which parameters are NaN or infinite after step `step`, and where that came from, as a phrase
/// for a message; empty where all are finite.
///
/// `gradients`: of that step, summed over the ranks, laid out as the store's; undefined where they
/// are gone. The first one, in the order of backward, whose gradient is not finite is then where
/// backward went wrong; else nothing is known but that the step's update did
/// it.
std::string non_finite_weights(const ParameterStore& store, std::int64_t step,
                               const Tensor& gradients);

/// The same for the running statistics.
std::string non_finite_statistics(const ParameterStore& store);

/// What to say of a loss that is not finite where the weights were: the images if they are not
/// finite, else the first such layer. `rank` -1 where there is one rank alone.
std::string non_finite_cause(bool images_finite, const std::optional<std::string>& layer, int rank);

}  // namespace tandem
