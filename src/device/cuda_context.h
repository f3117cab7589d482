#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/out_of_memory.h"

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// What a CUDA device is, read once.
struct CudaDevice {
  int index = 0;  ///< among the devices that this process sees
  std::string name;
  std::string uuid;    ///< "GPU-...", of the whole card or the MIG instance
  std::string card;    ///< "0000:3b:00", its place on the PCI bus; of MIG instances, their card's
  int capability = 0;  ///< compute capability, 90 for 9.0
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  bool under_mps = false;  ///< the driver's word: contexts on it are an MPS server's
};

/// A CUDA device as a place to compute: memory, the stream that kernels are enqueued on, the
/// handles of cuDNN and cuBLASLt. Work is done in the stream's order, after the call that enqueued
/// it has returned; synchronize() waits for it.
///
/// One context is used by one thread at a time. Errors of CUDA throw SystemError; an error of a
/// kernel may show in a later call.
class CudaContext {
 public:
  /// Throws InputError where there is no such device, or the driver is too old for the toolkit that
  /// Tandem was built with, or Tandem was not built for such a GPU.
  explicit CudaContext(int device);
  ~CudaContext();
  CudaContext(CudaContext&&) noexcept;
  CudaContext& operator=(CudaContext&&) noexcept;

  const CudaDevice& device() const { return device_; }
  /// Makes this device that of the calling thread; a plan calls this before it runs.
  void activate() const;

  /// What work is enqueued on now; see CudaStreamScope.
  CUstream_st* stream() const;
  /// A second stream, for work beside what the context's own has, and behind that in priority where
  /// the device knows several. It is the same for all who ask: see SideQueue.
  CUstream_st* side_stream();
  /// Waits until everything enqueued on stream() so far is done. Throws SystemError where it
  /// failed.
  void synchronize() const;

  /// 256-byte aligned device memory, not cleared. Throws OutOfMemory where there is none.
  void* allocate(std::size_t bytes);
  void deallocate(void* memory) noexcept;
  /// From now on deallocate() leaves this memory allocated as long as the process lives: where
  /// other processes' devices may still write there.
  void leave(void* memory) { left_.push_back(memory); }
  /// Device memory that nobody uses, in bytes.
  std::size_t free_bytes() const;

  /// Handles of the libraries; complete in device/cuda_libraries.h, which only sources include.
  struct Libraries;
  Libraries& libraries() { return *libraries_; }

 private:
  CudaDevice device_;
  std::unique_ptr<Libraries> libraries_;
  std::vector<void*> left_;
};

/// For its life, another stream of the device is what a context's stream() gives. The context and
/// the stream outlive it.
class CudaStreamScope {
 public:
  CudaStreamScope(CudaContext& context, CUstream_st* stream);
  ~CudaStreamScope();
  CudaStreamScope(const CudaStreamScope&) = delete;
  CudaStreamScope& operator=(const CudaStreamScope&) = delete;

 private:
  CudaContext& context_;
  CUstream_st* before_;
};

/// How many CUDA devices this process sees; 0 without a driver.
int cuda_device_count();
/// Why a driver that is loaded gives this process no device, as a phrase: it is too old, or it
/// fails. Empty where none is loaded, or there is no device.
std::string cuda_problem();
/// All of them, in their order.
std::vector<CudaDevice> cuda_devices();

}  // namespace tandem
