#pragma once

#include <string>

#include "bench/bench_run.h"

namespace tandem {

/// The result as tables for people; `every_layer`: also one line for each layer of the model, in
/// its order.
std::string bench_text(const BenchResult& result, bool every_layer);

}  // namespace tandem
