#pragma once

#include <optional>
#include <string>

#include "tune/search.h"
#include "tune/sweep.h"

namespace tandem {

/// One line of a table of candidates, without a line end: rates, range, memory, or why there are
/// none.
std::string row_text(const Row& row);
std::string row_heading();

/// The search as tables and sentences for people: every candidate, what was left out, the choice
/// and what it gains.
std::string tune_text(const TuneResult& result);

/// Why the choice is not sure enough to keep, as a clause; empty where it is.
std::string why_not_kept(const TuneResult& result);

/// The grid, its best, and the search's regret.
std::string sweep_text(const TuneResult& result, const Sweep& sweep);

/// Both as one JSON object (docs/metrics.md has its fields), indented.
std::string tune_json(const SearchLimits& limits, const TuneResult& result,
                      const std::optional<Sweep>& sweep);

}  // namespace tandem
