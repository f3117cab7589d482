#include "parallel/device_communicator.h"
#include "parallel/nccl_communicator.h"
#include "parallel/self_communicator.h"

namespace tandem {

std::unique_ptr<Communicator> make_device_communicator(AnyContext& context, Communicator& host,
                                                       const DeviceLinkOptions& options) {
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return nullptr;
  if (host.size() == 1) return std::make_unique<SelfCommunicator>();
  return std::make_unique<NcclCommunicator>(host, *gpu, options);
}

}  // namespace tandem
