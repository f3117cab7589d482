#include "device/open_context.h"
#include "parallel/rank_devices.h"

namespace tandem {

std::vector<std::string> visible_gpus() { return {}; }

AnyContext open_rank_gpu(Communicator& /*host*/) { return open_gpu(0); }

std::vector<DeviceFact> library_versions() { return {}; }

std::vector<DeviceFact> device_facts(const AnyContext& /*context*/) { return {}; }

std::string device_model(const AnyContext& /*context*/) { return {}; }

}  // namespace tandem
