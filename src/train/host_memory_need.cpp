#include "train/host_memory_need.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/step_plan.h"
#include "train/fitting_samples.h"
#include "train/planned_run.h"
#include "train/step/shared_state.h"

namespace tandem {
namespace {

std::int64_t batch_of(const RunConfig& config, const HostPlaces& places) {
  return planned_batch(config, std::int64_t{places.processes} * places.hosts);
}

/// With so many samples for each process at once.
std::optional<HostMemoryNeed> need_of(const RunConfig& config, const HostPlaces& places,
                                      std::int64_t batch) {
  HostMemoryNeed need{.places = places, .batch = batch};
  const Graph graph = planned_model(config);
  AnyContext context = CpuContext(1);
  ParameterStore store(graph, context, /*with_gradients=*/false, config.freeze);
  if (store.trained().empty()) return std::nullopt;
  const std::size_t values = store.all_values().bytes();
  const std::size_t gradients = store.trained_values().bytes();
  const std::size_t common = values + state_arenas(config.optimizer) * gradients;
  const bool share = config.shared_state && places.processes > 1;
  need.shared = share ? common : 0;
  need.state = gradients + (share ? 0 : common) + (config.average.decay > 0.0 ? values : 0);
  need.activations = StepPlan::least_activation_bytes(graph, store, context,
                                                      {.batch = need.batch,
                                                       .training = true,
                                                       .precision = config.precision,
                                                       .accumulation = config.accumulate > 1,
                                                       .batch_groups = config.folded_ranks});
  return need;
}

/// Most processes on a host that fit; 0: not one.
int fitting_processes(const RunConfig& config, const HostPlaces& places, std::size_t available) {
  for (int processes = places.processes - 1; processes >= 1; --processes) {
    const HostPlaces fewer{.processes = processes, .hosts = places.hosts};
    if (batch_of(config, fewer) == 0) continue;
    const std::optional<HostMemoryNeed> need = least_host_memory(config, fewer);
    if (need && need->bytes() <= available) return processes;
  }
  return 0;
}

}  // namespace

std::optional<HostMemoryNeed> least_host_memory(const RunConfig& config, const HostPlaces& places) {
  const std::int64_t batch = batch_of(config, places);
  if (batch == 0) return std::nullopt;
  return need_of(config, places, batch);
}

void require_host_memory(const RunConfig& config, const HostPlaces& places, std::size_t available) {
  const std::optional<HostMemoryNeed> need = least_host_memory(config, places);
  if (!need || need->bytes() <= available) return;
  const bool several = places.processes > 1;
  std::string text = fmt::format(
      "training does not fit the memory of {}: {} at least {} of activations for {} samples at "
      "once and {} of ",
      places.hosts > 1 ? "each host" : "this host",
      several ? fmt::format("each of {} processes needs", places.processes) : "it needs",
      format_bytes(need->activations), need->batch, format_bytes(need->state));
  if (need->shared > 0) {
    text +=
        fmt::format("gradients{}, and all together {} of parameters and optimizer state",
                    config.average.decay > 0.0 ? " and averages" : "", format_bytes(need->shared));
  } else {
    text += "parameters, gradients and optimizer state";
  }
  text += fmt::format("; of {} in all, {} are available", format_bytes(need->bytes()),
                      format_bytes(available));
  const int fits = several ? fitting_processes(config, places, available) : 0;
  if (fits > 0) {
    text += fmt::format(
        "; {} with the same train.global_batch: lower --ranks-per-gpu, or "
        "mpirun -n",
        fits == 1 ? "one process fits" : fmt::format("{} processes fit", fits));
  } else {
    text += fitting_advice(config, need->batch, several, available,
                           [&](const RunConfig& accumulating, std::int64_t batch) {
                             return need_of(accumulating, places, batch)->bytes();
                           });
  }
  throw InputError(text);
}

}  // namespace tandem
