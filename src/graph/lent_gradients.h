#pragma once

#include <span>

#include "graph/memory_plan.h"
#include "graph/parameters.h"

namespace tandem {

/// The store's gradients as lent memory: backward of trained parameter p writes at tick
/// `written[p]` at the earliest, and its gradient is kept to tick `last`. Gaps between parameters
/// are never lent: what goes over the whole arena reads them as zeros. The store needs no gradients
/// yet.
LentMemory lent_gradients(const ParameterStore& store, std::span<const int> written, int last);

}  // namespace tandem
