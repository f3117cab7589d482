#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace tandem {

class CudaContext;

/// Device memory of a measurement, freed with it.
class TimingBuffer {
 public:
  /// Throws Error where there is not as much.
  TimingBuffer(CudaContext& context, std::size_t bytes);
  ~TimingBuffer();
  TimingBuffer(const TimingBuffer&) = delete;
  TimingBuffer& operator=(const TimingBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  CudaContext* context_;
  std::byte* data_;
  std::size_t bytes_;
};

/// Milliseconds of one `enqueue` on the context's stream, the median of several measurements of
/// a captured CUDA graph of several of them: the host's part does not count. Where the first run
/// takes clearly longer than `best`, that is the answer. nullopt where it throws SystemError or
/// cannot be captured. Prepare-time only: synchronises.
std::optional<float> time_kernels(CudaContext& context, const std::function<void()>& enqueue,
                                  float best);

/// Runs what `enqueue` enqueues as a captured CUDA graph, and waits for it.
void run_captured(CudaContext& context, const std::function<void()>& enqueue);

}  // namespace tandem
