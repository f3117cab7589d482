#pragma once

#include <functional>
#include <optional>

namespace tandem {

class CudaContext;

/// Milliseconds of one `enqueue` on the context's stream, the median of several measurements of
/// a captured CUDA graph of several of them: the host's part does not count. Where the first run
/// takes clearly longer than `best`, that is the answer. nullopt where it throws SystemError or
/// cannot be captured. Prepare-time only: synchronises.
std::optional<float> time_kernels(CudaContext& context, const std::function<void()>& enqueue,
                                  float best);

/// Runs what `enqueue` enqueues as a captured CUDA graph, and waits for it.
void run_captured(CudaContext& context, const std::function<void()>& enqueue);

}  // namespace tandem
