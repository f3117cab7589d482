#pragma once

#include <functional>
#include <span>
#include <string>

#include "report/run_history.h"

namespace tandem {

/// A run's name behind its colour.
std::string run_label(const RunHistory& run, std::size_t index);

/// Final and best values, one row a run; where there are several runs the best of a column is
/// marked.
std::string summary_table(std::span<const RunHistory> runs);

/// A bar and the seconds of each phase (compute, data wait, exposed communication, evaluation), one
/// row a run; the bars share one scale.
std::string phase_table(std::span<const RunHistory> runs);

/// Facts side by side, one row a name, one column a run. With several runs the rows that differ
/// come first and are marked; the others are folded away.
std::string facts_table(std::span<const RunHistory> runs,
                        const std::function<const Facts&(const RunHistory&)>& facts);

}  // namespace tandem
