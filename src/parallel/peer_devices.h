#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "parallel/communicator.h"
#include "tensor/tensor.h"

namespace tandem {

/// Ranks with a device each that writes the memory of the others, as far as each can update a share
/// of the weights for all of them: weight-update sharding (Xu et al. 2020, "Automatic Cross-Replica
/// Sharding of Weight Update in Data-Parallel Training", arXiv:2004.13336).
class PeerDevices {
 public:
  PeerDevices(const PeerDevices&) = delete;
  PeerDevices& operator=(const PeerDevices&) = delete;

  /// How many ranks these are, and this one's place among them.
  virtual int members() const = 0;
  virtual int member() const = 0;
  /// An attached arena (Communicator::attach) of each member, as this rank's device reaches it; its
  /// own is the arena itself.
  virtual std::vector<float*> arenas(const Tensor& arena) const = 0;
  /// As Communicator::sum_attached_async(), but that this rank gets the sums of its share of the
  /// slice alone (share_of() in parallel/slice_share.h), at their place in its arena.
  /// `update` is called once: what it enqueues in the communicator's context comes behind these
  /// sums, and behind what was enqueued so for earlier slices.
  virtual void sum_share(const Tensor& slice, std::string_view label,
                         const std::function<void()>& update) = 0;
  /// Done when everything is done, and seen by all, that all members enqueued by sum_share() so
  /// far. Due before a slice is written again.
  virtual std::unique_ptr<Request> finish_shares() = 0;
  /// Waits on the host until all that was enqueued in the communicator's context is done. Throws as
  /// Communicator::wait_until(), with `what` in the message.
  virtual void wait_for_context(std::string_view what) = 0;

 protected:
  PeerDevices() = default;
  ~PeerDevices() = default;
};

}  // namespace tandem
