#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "device/any_context.h"
#include "device/kernel_choices.h"
#include "device/open_context.h"
#include "parallel/device_communicator.h"
#include "parallel/device_test.h"
#include "train/ranks/replica_place.h"

namespace tandem {

inline bool has_gpu_of_its_own() {
  return devices_of_ranks().size() == static_cast<std::size_t>(world().size());
}

/// What a run takes by itself, or where ranks share GPUs what the test's script says.
inline DeviceLinkOptions usual_links() {
  return has_gpu_of_its_own() ? DeviceLinkOptions{} : links_of_test();
}

/// What training on this rank's GPU needs. (The reduction is Self for one rank.)
class GpuPlace {
 public:
  explicit GpuPlace(const DeviceLinkOptions& link = usual_links())
      : context_(std::in_place_type<CudaContext>, gpu().device().index),
        reduction_(make_device_communicator(context_, hosts(), link)) {}
  ReplicaPlace place() { return {context_, hosts(), *reduction_}; }
  KernelChoices& choices() { return *kernel_choices(context_); }

 private:
  AnyContext context_;
  std::unique_ptr<Communicator> reduction_;
};

}  // namespace tandem
