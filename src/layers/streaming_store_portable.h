#pragma once

// Where no such stores are known. streaming_store_sse.h says what the functions are for.

#include "layers/four_floats.h"

namespace tandem {

inline void stream_store(float* place, Four value) {
  *reinterpret_cast<FourInMemory*>(place) = value;
}
inline void streamed() {}

}  // namespace tandem
