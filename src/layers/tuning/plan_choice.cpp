#include "layers/tuning/plan_choice.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "base/log.h"

namespace tandem {

float result_tolerance(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 1e-3F;
    case Precision::tf32:
      return 1e-2F;  // operands of 11 bits, which may be cut off: up to 2^-10 each
    case Precision::bf16:
      // The operands are bf16 already, and sums are f32, whose order hardly shows. What is left is
      // the rounding of results, of 2^-9: of a sum, and of what it is then added to.
      return 1e-2F;
    case Precision::fp16:
      return 1e-2F;
  }
  throw Error("a precision of unknown kind");
}

std::string fault_of(const ResultFindings& once, const ResultFindings& again, float tolerance) {
  for (const ResultFindings& run : {once, again}) {
    if (run.not_finite > 0) return fmt::format("{} values are not finite", run.not_finite);
    // A comparison that a NaN fails.
    if (!(run.largest_difference <= tolerance * run.largest_value)) {
      return fmt::format("a value is {:.3g} from the definition, whose largest is {:.3g}",
                         run.largest_difference, run.largest_value);
    }
  }
  if (once.checksum != again.checksum) return "two runs differ";
  return {};
}

namespace {

/// Whether the candidate's result is right; else `choice` says why not.
bool is_right(std::string_view key, const PlanCandidate& candidate, PlanChoice& choice) {
  const std::string fault = candidate.fault();
  if (fault.empty()) return true;
  choice.refused = fmt::format("{}: {}", candidate.name, fault);
  log_debug("{}: refused, {}", key, choice.refused);
  return false;
}

}  // namespace

PlanChoice fastest_right(std::string_view key, std::span<const PlanCandidate> candidates) {
  PlanChoice best;
  best.ms = std::numeric_limits<float>::infinity();
  for (const PlanCandidate& candidate : candidates) {
    const auto ms = candidate.time(best.ms);
    if (!ms) continue;
    log_debug("{}: {:.4f} ms by {}", key, *ms, candidate.name);
    if (!(*ms < best.ms) || !is_right(key, candidate, best)) continue;
    best.name = candidate.name;
    best.ms = *ms;
  }
  return best;
}

PlanChoice first_right(std::string_view key, std::span<const PlanCandidate> candidates) {
  PlanChoice first;
  for (const PlanCandidate& candidate : candidates) {
    if (!is_right(key, candidate, first)) continue;
    first.name = candidate.name;
    break;
  }
  return first;
}

std::string why_none(const PlanChoice& choice) {
  if (choice.refused.empty()) return "none runs here";
  return fmt::format(
      "none computes rightly here (the last, {}); another share of the GPU, or another version of "
      "cuDNN or cuBLAS, may have one that does",
      choice.refused);
}

}  // namespace tandem
