#include "train/device_memory_need.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/step_plan.h"
#include "train/fitting_samples.h"
#include "train/planned_run.h"
#include "train/step/gradient_memory.h"
#include "train/step/shared_state.h"

namespace tandem {
namespace {

std::int64_t batch_of(const RunConfig& config, const DevicePlaces& places) {
  return planned_batch(config, std::int64_t{places.processes} * places.devices);
}

/// With so many samples for each process at once.
std::optional<DeviceMemoryNeed> need_of(const RunConfig& config, const DevicePlaces& places,
                                        std::int64_t batch) {
  DeviceMemoryNeed need{.places = places, .batch = batch};
  const Graph graph = planned_model(config);
  AnyContext context = CpuContext(1);
  ParameterStore store(graph, context, /*with_gradients=*/false, config.freeze, config.precision);
  if (store.trained().empty()) return std::nullopt;
  const Tensor weights = store.all_weights();
  const bool rounded = weights.raw() != store.all_values().raw();
  const std::size_t values = store.all_values().bytes() + (rounded ? weights.bytes() : 0);
  const std::size_t gradients = store.trained_values().bytes();
  const std::size_t common = values + state_arenas(config.optimizer) * gradients;
  // What activations lie in the memory of, or what passes through theirs, takes none of its own.
  const bool shared_memory =
      gradient_memory(config, places.processes * places.devices, true) != GradientMemory::stored;
  const bool share = config.shared_state && places.processes > 1;
  need.shared = share ? common : 0;
  need.state = (shared_memory ? 0 : gradients) + (share ? 0 : common) +
               (config.average.decay > 0.0 ? values : 0);
  need.activations = StepPlan::least_activation_bytes(graph, store, context,
                                                      {.batch = need.batch,
                                                       .training = true,
                                                       .precision = config.precision,
                                                       .accumulation = config.accumulate > 1,
                                                       .batch_groups = config.folded_ranks},
                                                      StepPlan::Kernels::of_any_device);
  return need;
}

/// Most processes on a GPU that fit; 0: not one.
int fitting_processes(const RunConfig& config, const DevicePlaces& places, std::size_t room) {
  for (int processes = places.processes - 1; processes >= 1; --processes) {
    const DevicePlaces fewer{.processes = processes, .devices = places.devices};
    if (batch_of(config, fewer) == 0) continue;
    const std::optional<DeviceMemoryNeed> need = least_device_memory(config, fewer);
    if (need && need->bytes() <= room) return processes;
  }
  return 0;
}

std::string state_text(const RunConfig& config, const DeviceMemoryNeed& need) {
  if (need.shared == 0) {
    return format_bytes(need.state) + " of parameters, gradients and optimizer state";
  }
  return fmt::format("{} of gradients{}, and all together {} of parameters and optimizer state",
                     format_bytes(need.state), config.average.decay > 0.0 ? " and averages" : "",
                     format_bytes(need.shared));
}

}  // namespace

std::optional<DeviceMemoryNeed> least_device_memory(const RunConfig& config,
                                                    const DevicePlaces& places) {
  const std::int64_t batch = batch_of(config, places);
  if (batch == 0) return std::nullopt;
  return need_of(config, places, batch);
}

void require_device_memory(const RunConfig& config, const DevicePlaces& places,
                           const DeviceRoom& room) {
  const std::optional<DeviceMemoryNeed> need = least_device_memory(config, places);
  if (!need || need->bytes() <= room.bytes) return;
  const bool several = places.processes > 1;
  std::string text = fmt::format(
      "training does not fit the memory of {}: {} at least {} of activations for {} samples at "
      "once and {}; {} in all, of {} that it has",
      room.name, several ? fmt::format("each of {} ranks needs", places.processes) : "it needs",
      format_bytes(need->activations), need->batch, state_text(config, *need),
      format_bytes(need->bytes()), format_bytes(room.bytes));
  const int fits = several ? fitting_processes(config, places, room.bytes) : 0;
  if (fits > 0) {
    text += fmt::format("; {} with the same train.global_batch: lower --ranks-per-gpu",
                        fits == 1 ? "one rank fits" : fmt::format("at most {} ranks fit", fits));
  } else {
    text += fitting_advice(config, need->batch, several, room.bytes,
                           [&](const RunConfig& accumulating, std::int64_t batch) {
                             return need_of(accumulating, places, batch)->bytes();
                           });
  }
  throw InputError(text);
}

}  // namespace tandem
