#pragma once

#include <string>

#include "bench/bench_run.h"

namespace tandem {

/// The whole result as one JSON object (docs/metrics.md has its fields), indented. What was not
/// measured is "unavailable".
std::string bench_json(const BenchResult& result);

}  // namespace tandem
