#include "train/checkpoints/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/checkpoints/model_weights.h"

namespace tandem {

namespace fs = std::filesystem;

namespace {

/// With what is being written where the run ends by an error, whose cause may be the disk: the
/// others do not wait for this rank for long.
constexpr std::chrono::seconds last_patience(2);
/// The same, before a message that names the newest checkpoint: they are told soon.
constexpr std::chrono::milliseconds hint_patience(100);

constexpr const char* either_way =
    "go on with --resume, or start again where there is no checkpoint yet";

constexpr std::string_view resume_advice =
    "give a checkpoint or the folder of a run that has one, or leave --resume out to start anew";

}  // namespace

bool resumes_in_place(const RunPlace& place) {
  if (!place.resume) return false;
  if (place.resume_from.empty()) return true;
  std::error_code code;
  const fs::path folder = fs::weakly_canonical(place.folder, code);
  const fs::path from = fs::weakly_canonical(place.resume_from, code);
  // Which may lie on another disk, behind a link.
  const fs::path checkpoints = fs::weakly_canonical(place.folder / "checkpoints", code);
  if (from == folder || from == checkpoints || from.parent_path() == checkpoints) return true;
  return from.parent_path() == folder && fs::is_regular_file(from, code);
}

namespace {

/// The run keeps its config, with overrides and defaults, as config.toml, and what stood there
/// would be lost: somebody's own, where no run has written it.
void require_other_config(const RunPlace& place) {
  std::error_code code;
  const fs::path kept = place.folder / "config.toml";
  if (place.config.empty() || !fs::equivalent(place.config, kept, code)) return;
  for (const char* sign : {"metrics.jsonl", "checkpoints", "train.log"}) {
    if (fs::exists(place.folder / sign, code)) return;
  }
  input_error(
      "{}: the run would replace it by what it keeps as {}; choose another --out, or give the "
      "config another name",
      place.config.string(), kept.string());
}

}  // namespace

void require_fresh_folder(const RunPlace& place) {
  if (resumes_in_place(place)) return;
  require_other_config(place);
  // Any other run may start only where none has left checkpoints.
  if (!CheckpointStore(place.folder / "checkpoints").holds_any()) return;
  input_error("{} holds {} run already; {}choose another --out", place.folder.string(),
              place.resume ? "another" : "a", place.resume ? "" : "go on with it by --resume or ");
}

void require_resumable(const RunPlace& place) {
  std::error_code code;
  if (place.resume_from.empty() || fs::exists(place.resume_from, code)) return;
  input_error("--resume {}: no such file or folder; {}", place.resume_from.string(), resume_advice);
}

RunCheckpoints::RunCheckpoints(const RunPlace& place, const RunConfig& config)
    : place_(place), config_(config), store_(place.folder / "checkpoints") {}

RunCheckpoints::~RunCheckpoints() {
  if (!writing_) return;
  writing_->wait_for(last_patience);
  if (!writing_->done()) return;
  try {
    wait({}, [] {});
  } catch (const std::exception& error) {
    // Not what the run ended by, which alone is told.
    write_log_line(LogPlace::file, LogLevel::warning, error.what());
  }
}

fs::path RunCheckpoints::to_resume() const {
  const bool named = !place_.resume_from.empty();
  fs::path from = named ? place_.resume_from : place_.folder;
  if (!from.has_filename()) from = from.parent_path();  // "run/", as a shell completes it
  std::error_code code;
  if (fs::is_regular_file(from, code)) return from;
  // Of a run's folder, or that of its checkpoints itself.
  const bool is_store = from.filename() == "checkpoints" && !fs::exists(from / "checkpoints", code);
  const fs::path folder = is_store ? from : from / "checkpoints";
  if (const auto found = CheckpointStore(folder).to_resume()) return found->path;
  input_error("--resume{}: no checkpoint in {}; {}", named ? " " + from.string() : "",
              folder.string(), resume_advice);
}

TrainingPosition RunCheckpoints::start(Replica& replica, const TrainingPosition& fresh) {
  if (place_.resume) {
    const fs::path path = to_resume();
    std::error_code code;
    taken_up_ = fs::canonical(path, code);
    if (code) taken_up_ = path;
    TrainingPosition position =
        load_checkpoint(path, replica.store(), replica.optimizer(), fresh, replica.average());
    log_info("resuming at step {} from {}", position.step, path.string());
    if (position.loss_scale) {
      replica.set_loss_scale(*position.loss_scale);
    } else if (const auto scale = replica.loss_scale()) {
      log_info("{} has no loss scale; it starts at {}", path.string(), scale->scale);
    }
    return position;
  }
  TrainingPosition position = fresh;
  if (!config_.init.empty()) position.batches = load_init(replica);
  if (replica.average() != nullptr) replica.average()->start_from(replica.store());
  return position;
}

std::int64_t RunCheckpoints::read_init(Replica& replica) const {
  return with_place(config_.init_place, [&] {
    return load_weights(SafetensorsFile(config_.init), replica.store(),
                        {.skip = config_.init_skip,
                         .advice = "give weights of the same model, classes and input channels, or "
                                   "name what is to start anew in "
                                   "train.init_skip, as [\"fc\"]"});
  });
}

std::int64_t RunCheckpoints::load_init(Replica& replica) const {
  const std::int64_t batches = read_init(replica);
  std::vector<std::string> anew;
  for (const Parameter& parameter : replica.store().parameters()) {
    if (config_.init_skip.match(parameter.name)) anew.push_back(parameter.name);
  }
  log_info("starting from the weights in {}{}", config_.init,
           anew.empty() ? "" : fmt::format("; by train.init_skip {} start anew", join(anew, ", ")));
  return batches;
}

bool RunCheckpoints::open(TrainingPosition& position) const {
  store_.create_folder();
  keep_start(position);
  const bool later = store_.drop_after(position.step);
  restore_best(position);
  return later;
}

/// Of the best checkpoint, or one beside the run's own: until it writes another, a run that fails
/// has this one to go on from.
void RunCheckpoints::keep_start(const TrainingPosition& position) const {
  if (taken_up_.empty() || !resumes_in_place(place_)) return;
  const fs::path own = store_.path_for_step(position.step);
  std::error_code code;
  const bool is_named = fs::is_regular_file(place_.resume_from, code);
  // One that is named may be there because the step's own is damaged.
  if (fs::exists(own, code) && (!is_named || fs::equivalent(own, taken_up_, code))) return;
  store_.set_step(taken_up_, position.step);
}

void RunCheckpoints::restore_best(TrainingPosition& position) const {
  const std::optional<std::int64_t> best = store_.best_step();
  const bool is_told = position.best_step > 0;  // by checkpoints of builds that did not
  if (best && (!is_told || *best == position.best_step)) return;
  const auto found = is_told ? store_.find(position.best_step) : std::nullopt;
  if (!found) {
    position.best_top1 = -1.0;
    position.best_step = 0;
    return;
  }
  log_info("{} is the best so far, and becomes {}", found->string(),
           store_.best_path().filename().string());
  store_.set_best(*found);
}

void RunCheckpoints::begin(Replica& replica, TrainingPosition position, bool best) {
  TANDEM_CHECK(!writing_, "a checkpoint is begun while another is being written");
  position.loss_scale = replica.loss_scale();
  auto image = std::make_shared<const CheckpointImage>(replica.store(), replica.optimizer(),
                                                       position, replica.average());
  // Whatever it uses is its own, for a disk that hangs may keep it beyond the run's end.
  writing_.emplace([image = std::move(image), store = store_, step = position.step, best,
                    keep = config_.checkpoint_keep]() mutable {
    const fs::path path = store.path_for_step(step);
    std::error_code code;
    if (!fs::exists(store.folder(), code)) {
      system_error("the run's folder '{}' is gone, which a run needs to its end",
                   store.folder().string());
    }
    image->write(path);
    image.reset();  // on this thread: to give back so much takes milliseconds
    if (best) store.set_best(path);
    store.keep_last(keep);
  });
}

void RunCheckpoints::look(const FilePatience& patience) {
  if (!writing_) return;
  if (writing_->done()) return wait(patience, [] {});
  writing_->look(patience);
}

void RunCheckpoints::wait(const FilePatience& patience, const std::function<void()>& meanwhile) {
  if (!writing_) return;
  FileTask task = std::move(*writing_);
  writing_.reset();
  task.wait(patience, meanwhile);
}

std::string RunCheckpoints::way_on() const {
  std::string newest;
  try {
    newest = newest_hint();
  } catch (const std::exception&) {  // there is no memory to list the folder, for one
    return either_way;
  }
  if (!newest.empty()) return "go on with --resume" + newest;
  return writing_ && !writing_->done() ? either_way : "start again: there is no checkpoint yet";
}

std::string RunCheckpoints::newest_hint() const {
  if (writing_) writing_->wait_for(hint_patience);
  const std::vector<StepCheckpoint> saved = store_.list();
  std::error_code code;
  if (saved.empty() && !fs::exists(store_.best_path(), code)) return "";
  const fs::path last = saved.empty() ? store_.best_path() : saved.back().path;
  return fmt::format("; the last checkpoint is {}", last.string());
}

}  // namespace tandem
