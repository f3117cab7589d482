#pragma once

#include <memory>

#include "parallel/peer_devices.h"
#include "parallel/self_communicator.h"

namespace tandem {

class CudaContext;

/// The group of one rank on a GPU: nothing is exchanged, and updates can go on beside backward all
/// the same.
class LoneDeviceCommunicator final : public SelfCommunicator {
 public:
  /// `context` outlives it.
  explicit LoneDeviceCommunicator(CudaContext& context);
  ~LoneDeviceCommunicator() override;

  bool sums_little_fast() const override { return true; }
  PeerDevices* peer_devices() override;

 private:
  /// CUDA's handles, kept out of this header.
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tandem
