#pragma once

namespace tandem {

/// Four floats in a register, and as they lie in memory.
using Four = float __attribute__((vector_size(16)));
using FourInMemory = float __attribute__((vector_size(16), aligned(4), may_alias));

}  // namespace tandem
