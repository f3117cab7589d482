#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensor/precision.h"

namespace tandem {

/// What a run of a kernel left in its result, beside the definition at sampled places.
struct ResultFindings {
  std::uint64_t not_finite = 0;     ///< elements that are NaN or infinite
  std::uint64_t checksum = 0;       ///< of all elements' bits and places
  float largest_difference = 0.0F;  ///< of a finite sample from the definition
  float largest_value = 0.0F;       ///< magnitude, of the definition's samples
};

/// How far a result may be from the definition, by the definition's largest magnitude: several
/// times what rounding operands, sums and results costs, and less than what a part of a sum that
/// was left out does.
float result_tolerance(Precision precision);

/// What is wrong with two runs on the same operands, as a phrase; empty where nothing is.
std::string fault_of(const ResultFindings& once, const ResultFindings& again, float tolerance);

/// A kernel that may be chosen.
struct PlanCandidate {
  std::string name;
  /// Milliseconds, as time_kernels() has them: rough ones where it is clearly slower than `best`,
  /// none where it does not run.
  std::function<std::optional<float>(float best)> time;
  /// Runs it: what is wrong with its result, as a phrase; empty where nothing is.
  std::function<std::string()> fault;
};

/// What was chosen of some candidates.
struct PlanChoice {
  std::string name;     ///< empty where none is right
  float ms = 0.0F;      ///< of that one, where they were timed
  std::string refused;  ///< the last that was found wrong, and its fault; empty where none was
};

/// The fastest candidate whose result is right; of equally fast ones the first. Only those that are
/// faster than all right ones before them are asked for faults. `key`: what they compute, for
/// messages.
PlanChoice fastest_right(std::string_view key, std::span<const PlanCandidate> candidates);

/// The first candidate whose result is right; none is timed.
PlanChoice first_right(std::string_view key, std::span<const PlanCandidate> candidates);

/// Why a choice is of none, and what may help, as a phrase.
std::string why_none(const PlanChoice& choice);

}  // namespace tandem
