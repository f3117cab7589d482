#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tandem {

/// Four floats in a register, and as they lie in memory.
using Four = float __attribute__((vector_size(16)));
using FourInMemory = float __attribute__((vector_size(16), aligned(4), may_alias));

// Stores of what is not read again soon: past the caches, so that the memory that is written is not
// read first. streamed() ends a thread's run of them, before others are told to read.

#if defined(__SSE__)

inline void stream_store(float* place, Four value) { _mm_stream_ps(place, value); }
inline void streamed() { _mm_sfence(); }

#else

inline void stream_store(float* place, Four value) {
  *reinterpret_cast<FourInMemory*>(place) = value;
}
inline void streamed() {}

#endif

}  // namespace tandem
