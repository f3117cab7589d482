#pragma once

namespace tandem {

/// How often this program called cudaMalloc or cudaHostAlloc so far, in all threads; what libraries
/// with a CUDA runtime of their own (NCCL) allocate is not among it. A program that uses this has
/// device_allocations.cpp among its sources, which takes the place of both functions and calls
/// them.
long device_allocations();

}  // namespace tandem
