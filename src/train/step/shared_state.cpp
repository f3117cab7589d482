#include "train/step/shared_state.h"

#include <numeric>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "optim/update_blocks.h"
#include "parallel/slice_share.h"
#include "train/step/parameter_groups.h"

namespace tandem {
namespace {

ArenaSource arenas_of(SharedDevice& device) {
  return [&device](std::size_t bytes) { return Arena::borrowed(device.allocate(bytes), bytes); };
}

/// What a device's ranks share, in bytes.
std::vector<std::size_t> state_sizes(const RunConfig& config, const ParameterStore& store) {
  std::vector<std::size_t> sizes{store.all_values().bytes()};
  const Tensor weights = store.all_weights();
  if (weights.raw() != store.all_values().raw()) sizes.push_back(weights.bytes());
  sizes.insert(sizes.end(), state_arenas(config.optimizer), store.trained_values().bytes());
  return sizes;
}

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

std::vector<ParameterGroupSlice> slices_of_shares(const std::vector<ParameterGroupSlice>& slices,
                                                  const std::vector<ArenaRange>& shares) {
  std::vector<ParameterGroupSlice> parts;
  for (const ArenaRange& share : shares) {
    const std::vector<ParameterGroupSlice> own =
        slices_within(slices, share.begin, share.elements());
    parts.insert(parts.end(), own.begin(), own.end());
  }
  return parts;
}

void say(const Communicator& reduction, std::string_view what, std::size_t bytes) {
  if (reduction.rank() != 0) return;
  log_info("{}: /dev/shm has no {} to spare on each host for what its ranks could share", what,
           format_bytes(bytes));
}

}  // namespace

std::size_t state_arenas(const OptimizerConfig& optimizer) {
  if (const auto* sgd = std::get_if<SgdOptions>(&optimizer.rule)) return sgd->momentum > 0 ? 1 : 0;
  return std::holds_alternative<AdamWOptions>(optimizer.rule) ? 2 : 1;
}

SharedDevice* share_values(const RunConfig& config, Communicator& reduction,
                           ParameterStore& store) {
  SharedDevice* device = config.shared_state ? reduction.shared_device() : nullptr;
  if (device == nullptr) return nullptr;
  const std::vector<std::size_t> state = state_sizes(config, store);
  // Each rank's gradients, and their sums.
  std::vector<std::size_t> all = state;
  all.insert(all.end(), static_cast<std::size_t>(device->members()) + 1,
             store.trained_values().bytes());
  const bool gradients_too = reduction.is_host() && device->has_room(all);
  if (!gradients_too && !device->has_room(state)) {
    say(reduction, "each rank keeps weights and optimizer state of its own", sum(state));
    return nullptr;
  }
  store.place_values(arenas_of(*device));
  if (gradients_too) {
    store.place_gradients([device](std::size_t bytes) {
      return Arena::borrowed(device->allocate_arena(bytes), bytes);
    });
  } else if (reduction.is_host()) {
    say(reduction, "gradients are copied to be summed", sum(all));
  }
  return device;
}

std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, ParameterStore& store,
                                          SharedDevice* device,
                                          const std::optional<std::vector<ArenaRange>>& shares) {
  const std::int64_t elements = store.trained_values().elements();
  std::vector<ParameterGroupSlice> slices = parameter_groups(config.optimizer, store);
  if (device != nullptr) {
    slices =
        slices_of_shares(slices, {share_of({0, elements}, device->members(), device->member())});
  } else if (shares) {
    slices = slices_of_shares(slices, *shares);
  }
  std::unique_ptr<Optimizer> optimizer =
      make_optimizer(config.optimizer, store.context(), elements, slices);
  if (device != nullptr) optimizer->place_state(arenas_of(*device));
  return optimizer;
}

}  // namespace tandem
