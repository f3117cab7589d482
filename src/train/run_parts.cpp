#include "train/run_parts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "device/host_memory.h"
#include "device/memory.h"
#include "device/open_context.h"
#include "device/pinned_memory.h"
#include "parallel/announced_work.h"
#include "parallel/colocated/host_reduction.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi/mpi_start_watch.h"
#include "parallel/replica_check.h"
#include "train/data_loading.h"
#include "train/file_patience.h"
#include "train/host_memory_need.h"
#include "train/norm_values.h"
#include "train/planned_run.h"
#include "train/run_device.h"
#include "train/step/device_input.h"

namespace tandem {
namespace {

/// Ranks that read other settings or other data would take part in other collectives and hang.
void check_same_run(const RunConfig& config, const RunParts& parts, Communicator& communicator) {
  const Datasets& sets = parts.datasets;
  const DataFingerprint& train = parts.train_data;
  const std::vector<PlanEntry> entries{
      {.name = fmt::format("run file of hash {:016x}", hash_text(config.text))},
      {.name =
           fmt::format("{} training and {} test samples", sets.train->size(), sets.test->size())},
      {.name = fmt::format("class names of fingerprint {:016x}", train.classes)},
      {.name = fmt::format("training labels of fingerprint {:016x}", train.labels)},
      {.name = fmt::format("training samples of fingerprint {:016x}", train.samples)},
      {.name =
           fmt::format("test samples of fingerprint {:016x}", fingerprint_of(*sets.test).samples)}};
  check_same_plan(communicator, entries);
}

Datasets open_data(const RunConfig& config, Communicator& communicator) {
  Datasets sets;
  run_announced(communicator, data_patience(config.data, communicator),
                [&] { sets = open_datasets(config.data); });
  return sets;
}

/// Null where `communicator` sums the gradients too.
std::unique_ptr<Communicator> make_reduction(const RunConfig& config, AnyContext& context,
                                             const RankTopology& topology,
                                             Communicator& communicator) {
  if (is_host(context)) return make_host_reduction(communicator, topology, config.reduction);
  return make_device_communicator(context, communicator, config.device_link, config.reduction);
}

/// By one rank of each host. GPUs are looked at before the first step.
void check_host_memory(const RunConfig& config, const RunParts& parts) {
  const RankTopology& topology = parts.topology;
  const HostPlaces places{.processes = topology.local_size(), .hosts = topology.hosts()};
  const bool alike = places.processes * places.hosts == topology.size();
  if (!is_host(parts.context) || topology.local_rank() != 0 || !alike) return;
  const std::optional<std::size_t> available = available_host_memory();
  if (available) require_host_memory(config, places, *available);
}

DistributedSampler make_sampler(const RunConfig& config, const Dataset& data,
                                const Communicator& communicator) {
  return with_place(config.global_batch_place, [&] {
    return DistributedSampler({.size = data.size(),
                               .global_batch = config.global_batch,
                               .world = communicator.size(),
                               .rank = communicator.rank(),
                               .accumulate = config.accumulate,
                               .folded = config.folded_ranks,
                               .seed = config.seed});
  });
}

/// What the ranks agree on and can do before any takes memory for the model.
DistributedSampler check_run(const RunConfig& config, const RunParts& parts,
                             Communicator& communicator) {
  check_same_run(config, parts, communicator);
  DistributedSampler sampler = make_sampler(config, *parts.datasets.train, communicator);
  check_host_memory(config, parts);
  return sampler;
}

DataLoader::Options loader_options(const RunConfig& config, RunParts& parts,
                                   Communicator& communicator) {
  return {.batch = static_cast<int>(parts.sampler.micro_batch()),
          .workers = config.data.workers,
          .prefetch = config.data.prefetch,
          .seed = config.seed,
          .on_bad_sample = config.data.skip_bad_samples ? OnBadSample::replace : OnBadSample::fail,
          .mix = config.data.mix,
          .raw = !is_host(parts.context),
          .allocate = pinned_allocator(parts.context),
          .hold = is_host(parts.context) ? 1 : DeviceInput::hold(config.accumulate),
          .while_waiting = [&communicator] { communicator.report_progress(); },
          .timeout_seconds = data_patience(config.data, communicator).seconds};
}

std::optional<RawInput> raw_input(const RunParts& parts) {
  if (is_host(parts.context)) return std::nullopt;
  return RawInput{parts.loader.raw_layout(), InputSpec(parts.train_transform)};
}

/// Where it ends, a slow start does too: what follows makes the plan and chooses its kernels.
Graph build_model(const RunConfig& config, RunParts& parts, const Communicator& communicator) {
  parts.heartbeat.begin_phase();
  Graph graph = run_model(config, parts.datasets.train->classes());
  require_values_to_normalise(graph, config, parts.sampler.micro_batch(), communicator.size());
  return graph;
}

}  // namespace

RunParts::RunParts(const RunConfig& config, Communicator& communicator)
    : heartbeat(config.timeout_seconds, communicator.rank(), start_patience()),
      topology(RankTopology::gather(communicator)),
      machine(read_machine()),
      context(open_run_device(config, machine, topology, communicator)),
      places(RankTopology::gather(communicator, this_place(device_uuid(context)))),
      reduction(make_reduction(config, context, topology, communicator)),
      datasets(open_data(config, communicator)),
      train_data(fingerprint_of(*datasets.train)),
      train_transform(make_transform(config.data, true)),
      sampler(check_run(config, *this, communicator)),
      loader(*datasets.train, train_transform, training_batches(sampler),
             loader_options(config, *this, communicator)),
      replica(config, build_model(config, *this, communicator), sampler.micro_batch(), context,
              communicator, reduction ? *reduction : communicator, raw_input(*this)) {}

int RunParts::threads() const {
  const auto* cpu = std::get_if<CpuContext>(&context);
  return cpu == nullptr ? 0 : cpu->threads();
}

}  // namespace tandem
