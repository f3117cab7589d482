#pragma once

#include <cstdint>
#include <vector>

#include "data/raw_batch.h"
#include "device/device_buffer.h"

struct CUstream_st;
struct CUevent_st;

namespace tandem {

class CudaContext;

/// Brings raw batches to a CUDA device while it computes.
///
/// A batch is one piece of memory, so it travels in one copy, on a stream of its own, into one of a
/// ring of places on the device. When its turn comes, the step's stream copies it within the device
/// to current(), whose address never changes: a captured step reads there. That copy moves the
/// bytes at the memory's speed (38 MB: 18 us); steps captured once for each place would save it,
/// but need the whole step captured, kept and updated twice.
///
///   before the first step: upload() its micro-batches
///   each step: advance() for each of them, the step, upload() the following step's
///
/// While a step computes on current(), the following one's batches travel into their places:
/// nothing that a step reads is written before that step is done.
class DeviceInput {
 public:
  /// For steps of so many micro-batches, each with a current() of its own. The context outlives it.
  DeviceInput(CudaContext& context, const RawBatchLayout& layout, int micro_batches = 1);
  /// Waits for the copies, so that the batches' memory may go.
  ~DeviceInput();
  DeviceInput(const DeviceInput&) = delete;
  DeviceInput& operator=(const DeviceInput&) = delete;

  /// Batches that may be uploaded and not yet current.
  static constexpr int places(int micro_batches) { return micro_batches + 1; }
  /// DataLoader::Options::hold for batches that are uploaded from the loader's memory, each before
  /// the following next(): a batch is read until the one `places` later is uploaded.
  static constexpr int hold(int micro_batches) { return places(micro_batches) + 1; }

  /// Begins to copy a batch of the host, in page-locked memory of this layout (device/
  /// pinned_memory.h). Waits for the batch `places` before, which is hardly ever still on its way.
  void upload(const RawBatchView& batch);

  /// Enqueues on the context's stream what makes the oldest batch that is uploaded current, in
  /// micro-batch 0, 1, ... of each step in turn. Host and device go on. To be called outside of a
  /// capture.
  void advance();

  /// In device memory, always at the same address; all zeros before the first advance().
  const RawBatchView& current(int micro = 0) const {
    return current_.at(static_cast<std::size_t>(micro));
  }

 private:
  struct Place {
    DeviceBuffer memory;
    CUevent_st* arrived = nullptr;  ///< on the copying stream
    CUevent_st* left = nullptr;     ///< on the step's: the place is free again
  };

  Place& place_of(std::int64_t batch) {
    return places_[static_cast<std::size_t>(batch) % places_.size()];
  }
  void release() noexcept;

  CudaContext& context_;
  RawBatchLayout layout_;
  CUstream_st* copying_ = nullptr;
  std::vector<Place> places_;
  DeviceBuffer fixed_;  ///< the current batches
  std::vector<RawBatchView> current_;
  std::int64_t uploaded_ = 0;  ///< batches so far
  std::int64_t advanced_ = 0;
};

}  // namespace tandem
