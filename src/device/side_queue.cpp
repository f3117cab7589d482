#include "device/side_queue.h"

namespace tandem {

std::unique_ptr<SideQueue> make_side_queue(CpuContext& /*context*/, std::size_t /*pieces*/) {
  return nullptr;
}

std::unique_ptr<SideQueue> make_side_queue(AnyContext& context, std::size_t pieces) {
  return std::visit([&](auto& device) { return make_side_queue(device, pieces); }, context);
}

}  // namespace tandem
