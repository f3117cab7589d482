#pragma once

#include <xmmintrin.h>

#include "layers/four_floats.h"

namespace tandem {

/// Stores what is not read again soon: past the caches, so that the memory that is written is not
/// read first. `place`: aligned to 16 bytes.
inline void stream_store(float* place, Four value) { _mm_stream_ps(place, value); }
/// Ends a thread's run of such stores, before others are told to read.
inline void streamed() { _mm_sfence(); }

}  // namespace tandem
