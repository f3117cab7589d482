#include "train/record/run_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/log.h"
#include "base/text.h"
#include "train/environment.h"

namespace tandem {
namespace {

std::string_view plural(std::size_t count) { return count == 1 ? "" : "s"; }

void log_recipe(const RunConfig& config, const ParameterStore& store) {
  std::int64_t frozen = 0;
  for (std::size_t i = store.trained().size(); i < store.parameters().size(); ++i) {
    frozen += store.parameters()[i].shape.elements();
  }
  if (frozen > 0) {
    log_info("{} parameters are frozen; their normalisations' statistics {}", format_count(frozen),
             config.freeze_statistics ? "too" : "still follow the batches");
  }
  if (config.average.decay > 0.0) {
    log_info("evaluated is the weights' moving average, decay {}", config.average.decay);
  }
}

/// A run that is made shorter, for a trial, may never come to them.
void warn_of_late_milestones(const RunConfig& config, std::int64_t steps_per_epoch) {
  const auto* const schedule = std::get_if<StepSchedule>(&config.schedule);
  if (schedule == nullptr) return;
  auto end = static_cast<double>(config.epochs);
  if (config.max_steps > 0) {
    end =
        std::min(end, static_cast<double>(config.max_steps) / static_cast<double>(steps_per_epoch));
  }
  const auto late = std::ranges::count_if(schedule->milestones,
                                          [end](double milestone) { return milestone >= end; });
  if (late == 0) return;
  log_warning("schedule.milestones: {} of {} not before the run's end, epoch {:.6g}", late,
              schedule->milestones.size(), end);
}

/// As of a folder that lies one level too deep: every guess is right.
void warn_of_one_class(std::int64_t classes) {
  if (classes == 1) log_warning("the data has one class: there is nothing to tell apart");
}

/// Of each epoch's end, that makes no whole batch.
std::string dropped_text(std::int64_t samples) {
  if (samples == 0) return "";
  return samples == 1 ? "; 1 sample is left out of each epoch, another one each time"
                      : fmt::format("; {} samples are left out of each epoch, other ones each time",
                                    format_count(samples));
}

}  // namespace

void log_description(const RunDescription& run) {
  const Graph& graph = run.replica.graph();
  log_info("{}; {} each on {} ({} cores), {}", run.topology.text(run.config.folded_ranks),
           run.device, run.machine.cpu_model, run.machine.cores, name_of(run.config.precision));
  log_info("{}: {} parameters, {:.3f} GFLOPs an image, input {}x{}x{}, {} class{}",
           run.config.model, format_count(graph.parameter_elements()),
           2e-9 * static_cast<double>(graph.multiply_adds()), graph.input()[1], graph.input()[2],
           graph.input()[3], graph.output()[1], graph.output()[1] == 1 ? "" : "es");
  const std::int64_t steps = run.sampler.steps_per_epoch();
  log_info(
      "data: {} training and {} test samples; {} step{} an epoch of {} samples ({} a rank{}){}",
      format_count(run.datasets.train->size()), format_count(run.datasets.test->size()),
      format_count(steps), steps == 1 ? "" : "s", format_count(run.config.global_batch),
      run.sampler.micro_batch() / run.config.folded_ranks,
      run.config.accumulate > 1 ? fmt::format(", {} times", run.config.accumulate) : "",
      dropped_text(run.sampler.dropped()));
  const std::size_t buckets = run.replica.bucketer().buckets().size();
  log_info(
      "memory a {}: {} of activations, {} of parameters, gradients and optimizer state; "
      "{} gradient bucket{}",
      run.config.folded_ranks > 1 ? "process" : "rank",
      format_bytes(run.replica.plan().activation_bytes() + run.evaluation_bytes),
      format_bytes(run.replica.state_bytes()), buckets, plural(buckets));
  if (run.replica.bucketer().compresses()) {
    log_info("gradients travel as bf16");
  }
  if (run.replica.updates_shares()) log_info("each rank updates its share of the weights");
  warn_of_one_class(graph.output()[1]);
  log_recipe(run.config, run.replica.store());
  warn_of_late_milestones(run.config, steps);
}

JsonLine start_record(const RunDescription& run) {
  JsonLine record;
  record.text("event", "start");
  for (const auto& [key, value] : environment_facts()) record.text(key, value);
  const int folded = run.config.folded_ranks;
  record.integer("ranks", std::int64_t{run.processes} * folded)
      .integer("processes", run.processes)
      .integer("folded_ranks", folded)
      .integer("hosts", run.topology.hosts())
      .integer("threads_per_rank", run.threads)
      .text("device", run.device)
      .text("precision", std::string(name_of(run.config.precision)))
      .text("cpu", run.machine.cpu_model)
      .text("communicator", run.communicator)
      .text("model", run.config.model)
      .integer("parameters", run.replica.graph().parameter_elements())
      .integer("dropped_samples_per_epoch", run.sampler.dropped())
      .integer("resumed_at_step", run.first_step);
  return record;
}

}  // namespace tandem
