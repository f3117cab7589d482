#include "train/run_memory_need.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/step_plan.h"
#include "train/fitting_samples.h"
#include "train/norm_values.h"
#include "train/planned_run.h"
#include "train/step/gradient_memory.h"
#include "train/step/shared_state.h"

namespace tandem {
namespace {

std::int64_t batch_of(const RunConfig& config, const MemoryPlaces& places) {
  return planned_batch(config, std::int64_t{places.processes} * places.memories);
}

/// With so many samples for each process at once.
std::optional<RunMemoryNeed> need_of(const RunConfig& config, const MemoryPlaces& places,
                                     std::int64_t batch) {
  const bool on_device = places.kind == MemoryPlaces::Kind::device;
  RunMemoryNeed need{.processes = places.processes, .batch = batch};
  const Graph graph = planned_model(config);
  AnyContext context = CpuContext(1);
  ParameterStore store(graph, context, /*with_gradients=*/false, config.freeze, config.precision,
                       ranks_with_statistics(config));
  if (store.trained().empty()) return std::nullopt;
  const Tensor weights = store.all_weights();
  const bool rounded = weights.raw() != store.all_values().raw();
  const std::size_t values = store.all_values().bytes() + (rounded ? weights.bytes() : 0);
  const std::size_t gradients = store.trained_values().bytes();
  const std::size_t common = values + state_arenas(config.optimizer) * gradients;
  // What activations lie in the memory of, or what passes through theirs, takes none of its own.
  const bool stored = gradient_memory(config, places.processes * places.memories, on_device) ==
                      GradientMemory::stored;
  const bool share = config.shared_state && places.processes > 1;
  need.shared = share ? common : 0;
  need.state = (stored ? gradients : 0) + (share ? 0 : common) +
               (config.average.decay > 0.0 ? values : 0) + store.buffers_of_ranks().bytes();
  need.activations = StepPlan::least_activation_bytes(
      graph, store, context,
      {.batch = need.batch,
       .training = true,
       .precision = config.precision,
       .accumulation = config.accumulate > 1,
       .batch_groups = ranks_with_statistics(config)},
      on_device ? StepPlan::Kernels::of_any_device : StepPlan::Kernels::as_here);
  return need;
}

}  // namespace

std::optional<RunMemoryNeed> least_memory(const RunConfig& config, const MemoryPlaces& places) {
  const std::int64_t batch = batch_of(config, places);
  if (batch == 0) return std::nullopt;
  return need_of(config, places, batch);
}

int fitting_processes(const RunConfig& config, const MemoryPlaces& places, std::size_t room) {
  MemoryPlaces fewer = places;
  for (fewer.processes = places.processes - 1; fewer.processes >= 1; --fewer.processes) {
    const std::optional<RunMemoryNeed> need = least_memory(config, fewer);
    if (need && need->bytes() <= room) return fewer.processes;
  }
  return 0;
}

std::string need_text(const RunConfig& config, const RunMemoryNeed& need, std::string_view where,
                      std::string_view processes) {
  const std::string text = fmt::format(
      "training does not fit the memory of {}: {} at least {} of activations for {} samples at "
      "once and {} of ",
      where,
      need.processes > 1 ? fmt::format("each of {} {} needs", need.processes, processes)
                         : "it needs",
      format_bytes(need.activations), need.batch, format_bytes(need.state));
  if (need.shared == 0) return text + "parameters, gradients and optimizer state";
  return text + fmt::format("gradients{}, and all together {} of parameters and optimizer state",
                            config.average.decay > 0.0 ? " and averages" : "",
                            format_bytes(need.shared));
}

std::string fitting_samples_advice(const RunConfig& config, const MemoryPlaces& places,
                                   const RunMemoryNeed& need, std::size_t room) {
  RunConfig accumulating = config;
  accumulating.accumulate = std::max(config.accumulate, 2);
  const std::int64_t samples =
      most_fitting_samples(need.batch, config.folded_ranks, [&](std::int64_t some) {
        return need_of(accumulating, places, some)->bytes() <= with_some_left(room);
      });
  return fitting_samples_text(samples, config.folded_ranks, places.processes > 1);
}

}  // namespace tandem
