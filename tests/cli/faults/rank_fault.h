#pragma once

namespace tandem::cli {

// Kernels that spoil a device for whoever works there, enqueued on a stream of the process's
// current device (cudaStream_t).

/// Writes to an address that is nobody's.
void write_astray(void* stream);
/// One thread that never ends.
void spin(void* stream);
/// The same with as many threads as the device takes at a time.
void flood(void* stream);

}  // namespace tandem::cli
