#include "train/shared_state.h"

#include <variant>

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

/// How many tensors as large as the gradients the optimizer's state has.
std::size_t state_arenas(const OptimizerConfig& optimizer) {
  if (const auto* sgd = std::get_if<SgdOptions>(&optimizer.rule)) return sgd->momentum > 0 ? 1 : 0;
  return std::holds_alternative<AdamWOptions>(optimizer.rule) ? 2 : 1;
}

}  // namespace

SharedDevice* share_values(const RunConfig& config, Communicator& reduction,
                           ParameterStore& store) {
  SharedDevice* device = config.shared_state ? reduction.shared_device() : nullptr;
  if (device == nullptr) return nullptr;
  const std::size_t needed =
      store.all_values().bytes() + state_arenas(config.optimizer) * store.all_gradients().bytes();
  // Beside it each rank's gradients, and their sums.
  const std::size_t exchange = store.all_gradients().bytes() * (device->members() + std::size_t{1});
  const bool gradients_too = reduction.is_host() && device->has_room(needed + exchange);
  if (!gradients_too && !device->has_room(needed)) {
    if (reduction.rank() == 0) {
      log_info(
          "each rank keeps weights and optimizer state of its own: /dev/shm has no {} to spare on "
          "each host for what its ranks could share",
          format_bytes(needed));
    }
    return nullptr;
  }
  store.place_values(arenas_of(*device));
  if (gradients_too) {
    store.place_gradients([device](std::size_t bytes) {
      return Arena::borrowed(device->allocate_arena(bytes), bytes);
    });
  }
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
