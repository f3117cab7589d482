#include "train/shared_state.h"

#include "base/log.h"
#include "base/text.h"
#include "optim/update_blocks.h"
#include "parallel/colocated/slice_share.h"
#include "train/parameter_groups.h"

namespace tandem {
namespace {

ArenaSource arenas_of(SharedDevice& device) {
  return [&device](std::size_t bytes) { return Arena::borrowed(device.allocate(bytes), bytes); };
}

}  // namespace

SharedDevice* share_values(const RunConfig& config, Communicator& reduction,
                           ParameterStore& store) {
  SharedDevice* device = config.shared_state ? reduction.shared_device() : nullptr;
  if (device == nullptr) return nullptr;
  // The values, and an optimizer's two arenas of their size at most.
  const std::size_t most = 3 * store.all_values().bytes();
  if (!device->has_room(most)) {
    if (reduction.rank() == 0) {
      log_info(
          "each rank keeps weights and optimizer state of its own: /dev/shm has no {} free for "
          "what ranks can share",
          format_bytes(most));
    }
    return nullptr;
  }
  store.place_values(arenas_of(*device));
  return device;
}

std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, ParameterStore& store,
                                          SharedDevice* device) {
  const std::int64_t elements = store.all_gradients().elements();
  std::vector<ParameterGroupSlice> slices = parameter_groups(config.optimizer, store);
  if (device != nullptr) {
    const ArenaRange share = share_of({0, elements}, device->members(), device->member());
    slices = slices_within(slices, share.begin, share.elements());
  }
  std::unique_ptr<Optimizer> optimizer =
      make_optimizer(config.optimizer, store.context(), elements, slices);
  if (device != nullptr) optimizer->place_state(arenas_of(*device));
  return optimizer;
}

}  // namespace tandem
