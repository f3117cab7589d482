#include "train/record/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/config_changes.h"
#include "base/error.h"
#include "base/file_work.h"
#include "base/log.h"
#include "base/text.h"
#include "train/record/progress_format.h"

namespace tandem {
namespace {

std::string_view name_of(RunEnding ending) {
  switch (ending) {
    case RunEnding::finished:
      return "finished";
    case RunEnding::early_stop:
      return "early_stop";
    case RunEnding::stopped:
      break;
  }
  return "stopped";
}

struct GpuField {
  std::string_view name;
  std::string_view tag;
  std::optional<double> GpuActivity::*value;
};
constexpr std::array<GpuField, 5> gpu_fields{
    {{"sm_activity", "gpu/sm_activity", &GpuActivity::sm_activity},
     {"sm_occupancy", "gpu/sm_occupancy", &GpuActivity::sm_occupancy},
     {"tensor_activity", "gpu/tensor_activity", &GpuActivity::tensor_activity},
     {"dram_activity", "gpu/dram_activity", &GpuActivity::dram_activity},
     {"energy_joules", "gpu/energy_joules", &GpuActivity::energy_joules}}};

/// What cannot be read is said to be so: a zero would be an idle GPU.
void add_gpu(const GpuStretch& stretch, JsonLine& line, std::vector<EventScalar>& scalars) {
  const auto add = [&](std::string_view name, std::string_view tag, std::optional<double> value) {
    if (value) {
      line.real(name, *value);
      scalars.push_back({tag, *value});
    } else {
      line.text(name, "unavailable");
    }
  };
  line.real("gpu_seconds", stretch.seconds).real("gpu_training_seconds", stretch.training_seconds);
  for (const GpuField& field : gpu_fields)
    add(field.name, field.tag, stretch.activity.*field.value);
  std::optional<double> per_thousand = stretch.activity.energy_joules;
  if (per_thousand) *per_thousand *= 1000.0 / static_cast<double>(stretch.samples);
  add("joules_per_1000_images", "gpu/joules_per_1000_images", per_thousand);
}

/// Empty where it cannot be read.
std::string text_of_file(const std::filesystem::path& path) {
  file_in_hand(path);
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

/// Tells what a run that goes on does otherwise than before, and keeps the config that it had: the
/// first one where several tries go on from one step, since only that trained what is there.
void tell_changes(const std::filesystem::path& folder, const std::string& now,
                  std::int64_t first_step) {
  constexpr std::size_t most = 8;
  const std::string before = text_of_file(folder / "config.toml");
  if (before.empty()) return;
  std::vector<std::string> changes;
  try {
    changes = config_changes(before, now);
  } catch (const InputError& error) {
    log_debug("{}", error.what());  // it does not read: there is nothing to compare
  }
  if (changes.empty()) return;
  const std::filesystem::path kept = folder / fmt::format("config-until-step-{}.toml", first_step);
  std::error_code code;
  if (!std::filesystem::exists(kept, code)) write_text(kept, before);
  const std::size_t more = changes.size() - std::min(changes.size(), most);
  changes.resize(changes.size() - more);
  log_info("settings that changed: {}{}; the config of the steps before is in {}",
           join(changes, "; "), more > 0 ? fmt::format("; and {} more", more) : "", kept.string());
}

/// As they are before a run goes on from an earlier step than they tell of.
void keep_superseded(const std::filesystem::path& records) {
  const std::filesystem::path aside = records.string() + ".superseded";
  std::error_code code;
  if (!std::filesystem::exists(records, code)) return;
  std::filesystem::copy_file(records, aside, std::filesystem::copy_options::overwrite_existing,
                             code);
  if (code)
    file_error(fmt::format("cannot copy '{}' to '{}'", records.string(), aside.string()), code);
  log_info("the records of later steps stay in {}", aside.string());
}

}  // namespace

RunRecord::RunRecord(const std::filesystem::path& folder, const RunConfig& config, bool speaker,
                     const RecordStart& start, std::function<std::string()> way_on)
    : way_on_(std::move(way_on)), skips_bad_samples_(config.data.skip_bad_samples) {
  if (!speaker) return;
  open_log_file(folder / "train.log");
  if (!start.idle) {
    if (start.goes_on) tell_changes(folder, config.text, start.step);
    write_text(folder / "config.toml", config.text);
  }
  if (start.supersedes) keep_superseded(folder / "metrics.jsonl");
  metrics_.emplace(folder / "metrics.jsonl");
  metrics_->resume_at(start.step, start.evaluates);
  if (config.tensorboard) events_.emplace(folder, start.step);
  progress_.emplace();
}

void RunRecord::start(const JsonLine& facts) { write(facts); }

void RunRecord::write(const JsonLine& record, std::int64_t step,
                      std::span<const EventScalar> scalars) {
  if (!metrics_) return;
  try {
    metrics_->write(record);
    if (events_ && !scalars.empty()) events_->write(step, scalars);
  } catch (const SystemError& error) {
    system_error("{}; mend that and {}", error.what(), way_on_());
  }
  const std::string failure = log_file_failure();
  if (!failure.empty()) {
    system_error("cannot write the log: {}; mend that and {}", failure, way_on_());
  }
}

void RunRecord::train(std::int64_t epoch, std::int64_t step, const Interval& interval,
                      double rate) {
  if (!metrics_) return;
  const auto samples = static_cast<double>(interval.sums.samples);
  const double loss = interval.sums.loss / samples;
  const double top1 = static_cast<double>(interval.sums.top1) / samples;
  const double images_per_second = samples / interval.seconds;
  JsonLine line;
  line.text("event", "train")
      .integer("epoch", epoch)
      .integer("step", step)
      .real("loss", loss)
      .real("top1", top1)
      .real("top5", static_cast<double>(interval.sums.top5) / samples)
      .real("learning_rate", rate);
  if (interval.gradient_norm) line.real("gradient_norm", *interval.gradient_norm);
  line.integer("samples", interval.sums.samples)
      .real("seconds", interval.seconds)
      .real("images_per_second", images_per_second)
      .real("data_wait_seconds", interval.data_wait_seconds)
      .real("exposed_communication_seconds", interval.exposed_communication_seconds);
  std::vector<EventScalar> scalars{
      {"train/loss", loss},
      {"train/top1", top1},
      {"train/learning_rate", rate},
      {"train/images_per_second", images_per_second},
      {"train/data_wait_seconds", interval.data_wait_seconds},
      {"train/exposed_communication_seconds", interval.exposed_communication_seconds}};
  if (interval.gradient_norm) scalars.push_back({"train/gradient_norm", *interval.gradient_norm});
  if (interval.gpu) add_gpu(*interval.gpu, line, scalars);
  write(line, step, scalars);
}

void RunRecord::evaluation(std::int64_t epoch, std::int64_t step, const Evaluation& result,
                           bool best) {
  if (!metrics_) return;
  JsonLine line;
  line.text("event", "evaluation")
      .integer("epoch", epoch)
      .integer("step", step)
      .real("loss", result.loss)
      .real("top1", result.top1)
      .real("top5", result.top5)
      .integer("samples", result.samples)
      .integer("skipped", result.skipped)
      .real("seconds", result.seconds)
      .boolean("best", best);
  std::vector<EventScalar> scalars{{"evaluation/loss", result.loss},
                                   {"evaluation/top1", result.top1},
                                   {"evaluation/top5", result.top5}};
  if (skips_bad_samples_) {
    scalars.push_back({"evaluation/skipped", static_cast<double>(result.skipped)});
  }
  write(line, step, scalars);
  log_info("epoch {}: test top-1 {:.2f} %, top-5 {:.2f} %, loss {} on {} samples{}{}", epoch,
           100.0 * result.top1, 100.0 * result.top5, loss_text(result.loss), result.samples,
           result.skipped > 0 ? fmt::format(", {} skipped", result.skipped) : "",
           best ? " (best so far)" : "");
  if (!std::isfinite(result.loss)) {
    log_warning(
        "the loss of epoch {}'s evaluation is not finite, and so it is not the best: lower "
        "optimizer.lr",
        epoch);
  }
}

void RunRecord::bad_samples(std::int64_t epoch, std::int64_t step, std::int64_t skipped,
                            std::int64_t distinct) {
  if (!metrics_) return;
  JsonLine line;
  line.text("event", "bad_samples")
      .integer("epoch", epoch)
      .integer("step", step)
      .integer("skipped", skipped)
      .integer("distinct", distinct);
  const std::vector<EventScalar> scalars{{"bad_samples/skipped", static_cast<double>(skipped)},
                                         {"bad_samples/distinct", static_cast<double>(distinct)}};
  write(line, step, scalars);
  log_warning("epoch {}: unreadable samples were skipped {}; {} listed in bad_samples.txt", epoch,
              skipped == 1 ? "once" : fmt::format("{} times", skipped),
              distinct == 1 ? "1 is" : fmt::format("{} are", distinct));
}

void RunRecord::end(RunEnding ending, std::int64_t step, std::int64_t total,
                    std::string_view reason) {
  if (!metrics_) return;
  JsonLine line;
  line.text("event", "end")
      .text("ending", name_of(ending))
      .integer("step", step)
      .integer("steps", total);
  if (!reason.empty()) line.text("reason", reason);
  write(line);
  if (ending == RunEnding::early_stop) {
    log_info("stopping early at step {} of {}: {}; a larger train.early_stop_patience would go on",
             step, total, reason);
  } else if (ending == RunEnding::stopped) {
    log_info("stopped at step {} of {} ({}); go on with --resume", step, total, reason);
  }
}

void RunRecord::progress(const CountState& state) {
  if (progress_) progress_->update(state);
}

void RunRecord::progress(const ProgressState& state, bool epoch_done) {
  if (!progress_) return;
  if (epoch_done) {
    progress_->end_epoch(state);
  } else {
    progress_->update(state);
  }
}

}  // namespace tandem
