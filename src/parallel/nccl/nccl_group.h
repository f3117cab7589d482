#pragma once

// For nccl_*.cpp and benchmarks alone.

#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "parallel/communicator.h"
#include "parallel/device_communicator.h"

namespace tandem {

/// NCCL's communicator from its beginning to its end, in which no call of NCCL blocks the host: it
/// is polled, through the host communicator's time-out, until the other ranks have done their part.
class NcclGroup {
 public:
  /// Collective. The calling thread's device is the group's.
  NcclGroup(Communicator& host, const DeviceLinkOptions& options);
  /// Collective, unless an error unwinds this rank or the group was given up. CUDA graphs that hold
  /// its operations are destroyed before.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  ncclComm_t comm() const { return *comm_; }

  /// Enqueues an operation: `call(comm())` is one call of NCCL, or several between ncclGroupStart
  /// and ncclGroupEnd. Returns once it is enqueued. The first of a kind waits for the other ranks.
  /// Errors name `operation` and, where it has one, its `label`.
  template <typename Call>
  void run(std::string_view operation, const Call& call, std::string_view label = {}) {
    check_alive();
    const ncclResult_t result = call(comm());
    if (result == ncclSuccess) return;
    settle(result, operation, label);
  }

  /// Throws SystemError that names `what()`, which is under way, where the group has failed.
  void check(const std::function<std::string()>& what);
  /// What the ranks do in the group ends here, and what hangs on the device with it. Kernels that
  /// wait for other ranks return, so that memory can be freed and the process can end.
  void give_up() noexcept;
  bool given_up() const { return aborted_ != nullptr; }

 private:
  /// NCCL's memory may be gone once it was given up.
  void check_alive() const;
  void settle(ncclResult_t result, std::string_view operation, std::string_view label = {});
  bool in_progress(const std::string& operation);
  void finalize();

  Communicator& host_;
  /// Shared with the thread that ends it: NCCL may still write there after this object is gone.
  std::shared_ptr<ncclComm_t> comm_ = std::make_shared<ncclComm_t>(nullptr);
  int exceptions_;
  std::shared_ptr<std::atomic<bool>> aborted_;  // null unless given up
};

}  // namespace tandem
