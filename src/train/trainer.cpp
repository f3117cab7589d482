#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/file_work.h"
#include "base/log.h"
#include "base/process_place.h"
#include "base/process_report.h"
#include "device/out_of_memory.h"
#include "parallel/announced_work.h"
#include "parallel/gather_text.h"
#include "parallel/replica_check.h"
#include "train/bad_samples.h"
#include "train/checkpoints/checkpoint_watch.h"
#include "train/checkpoints/run_checkpoints.h"
#include "train/early_stop.h"
#include "train/fault_places.h"
#include "train/file_patience.h"
#include "train/gpu_use.h"
#include "train/record/run_description.h"
#include "train/record/run_lock.h"
#include "train/record/run_record.h"
#include "train/record/step_tally.h"
#include "train/run_parts.h"
#include "train/step/non_finite.h"
#include "train/stop_signal.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// An evaluation that took fewer seconds is not worth a checkpoint before it, unless more of
/// training than this would be lost with it.
constexpr double short_evaluation = 1.0;
constexpr double little_training = 30.0;

constexpr const char* heartbeat_advice = "; go on with --resume";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

/// Everything of one run, in the order in which it is made.
class Trainer::Run {
 public:
  Run(const RunConfig& config, const RunPlace& place, Communicator& communicator)
      : config_(config),
        communicator_(watched(communicator)),
        parts_(config_, communicator),
        test_transform_(make_transform(config.data, false)),
        evaluator_(*parts_.datasets.test, test_transform_, replica_.graph(),
                   replica_.evaluated_store(), parts_.context, communicator,
                   {.batch = evaluation_batch(
                        config.eval_batch > 0 ? config.eval_batch : sampler_.micro_batch(),
                        parts_.datasets.test->size(), communicator.size()),
                    .loading = evaluation_loading(config.data, communicator),
                    .precision = config.precision,
                    // There is no step under way while it runs.
                    .spare = replica_.plan().memory()}),
        checkpoints_(place, config_),
        early_stop_(config.early_stop),
        gpu_use_(communicator, device_uuid(parts_.context)),
        bad_samples_(place.folder / "bad_samples.txt", communicator) {
    try {
      start(place);
    } catch (const Error&) {
      rethrow_with_places(parts_.places, [this] {
        return FaultNotes{.way_on = [this] { return checkpoints_.way_on(); }};
      });
    }
  }

  TrainOutcome run() {
    try {
      return train();
    } catch (const OutOfMemory& error) {
      if (position_.step == first_step_) throw;  // the config asks for too much
      system_error("{}; in the middle of the run: look what else takes memory, and {}",
                   error.what(), checkpoints_.way_on());
    } catch (const std::bad_alloc&) {
      if (position_.step == first_step_) throw;
      memory_ran_out();
    } catch (const Error&) {
      rethrow_with_places(parts_.places, [this] {
        return FaultNotes{.at = at_step(), .way_on = [this] { return checkpoints_.way_on(); }};
      });
    }
  }

 private:
  /// Only now, when the signals by which a launcher ends all ranks are caught.
  static Communicator& watched(Communicator& communicator) {
    communicator.watch_processes();
    return communicator;
  }

  /// With the run's folder. Nobody looks there for the newest checkpoint: it may be what hangs.
  FilePatience patience() const {
    FilePatience with = run_patience(config_.checkpoint_timeout_seconds, communicator_);
    if (trains_) with.advice = "; go on with --resume once it answers";
    return with;
  }

  /// Has rank 0 write something about the run into its folder.
  void record(const std::function<void(RunRecord&)>& write) {
    if (!speaks()) return;
    run_announced(communicator_, patience(), [&] { write(*record_); });
  }

  [[noreturn]] void memory_ran_out() const {
    system_error("out of memory in the middle of the run; look what else takes it, and {}",
                 checkpoints_.way_on());
  }

  /// From here on the folder is this run's.
  void start(const RunPlace& place) {
    run_announced(communicator_, patience(), [&] {
      if (speaks()) {
        require_resumable(place);
        lock_.emplace(place.folder);
      }
      require_fresh_folder(place);
    });
    restore();
    run_announced(communicator_, patience(), [&] {
      if (speaks()) require_something_to_do(place);
      const bool supersedes = speaks() && checkpoints_.open(position_);
      record_.emplace(place.folder, config_, speaks(),
                      RecordStart{.step = position_.step,
                                  .goes_on = resumes_in_place(place),
                                  .evaluates = evaluation_is_pending(),
                                  .idle = place.resume && nothing_is_left(),
                                  .supersedes = supersedes},
                      [this] { return checkpoints_.way_on(); });
      if (speaks()) bad_samples_.begin(resumes_in_place(place), config_.data.skip_bad_samples);
    });
    share_position();
    // Its evaluation may be left to this run.
    if (position_.step > 0) own_report().set_step(position_.step);
    describe();
  }

  bool nothing_is_left() const {
    return position_.step >= total_steps() && !evaluation_is_pending();
  }

  /// A folder of its own would hold no checkpoint.
  void require_something_to_do(const RunPlace& place) const {
    if (!place.resume || resumes_in_place(place)) return;
    if (evaluation_is_pending()) return;
    EarlyStop stopped(config_.early_stop);
    stopped.restore(position_.early_stop);
    if (position_.step < total_steps() && stopped.due()) {
      input_error("--resume {}: it has stopped early ({}); raise train.early_stop_patience",
                  place.resume_from.string(), stopped.reason());
    }
    if (position_.step < total_steps()) return;
    input_error(
        "--resume {}: it is at step {} already, and this run ends at step {}; raise train.{}",
        place.resume_from.string(), position_.step, total_steps(),
        total_steps() == config_.max_steps ? "max_steps" : "epochs");
  }

  TrainOutcome train() {
    const std::int64_t total = total_steps();
    if (position_.step >= total && speaks()) {
      log_info("all {} steps are done already; raise train.{} to go on", position_.step,
               total == config_.max_steps ? "max_steps" : "epochs");
    }
    first_step_ = position_.step;
    trains_ = true;
    parts_.heartbeat.begin_phase(heartbeat_advice);
    loader_.start(sampler_.ordinal(position_.epoch(), position_.step_in_epoch()));
    gpu_use_.begin();
    tally_.begin(position_.step);
    bool stop = evaluation_is_pending() && end_epoch(false);
    while (!stop && position_.step < total && !early_stop_.due()) stop = run_step(total);
    watch_.finish();
    if (stop) {
      record(
          [&](RunRecord& run) { run.end(RunEnding::stopped, position_.step, total, who_stops()); });
      return TrainOutcome::stopped;
    }
    replica_.check_bits();
    const bool early = position_.step < total;
    record([&](RunRecord& run) {
      run.end(early ? RunEnding::early_stop : RunEnding::finished, position_.step,
              std::max(total, position_.step), early ? early_stop_.reason() : std::string());
    });
    parts_.heartbeat.begin_phase();  // nothing is left to go on with
    return TrainOutcome::finished;
  }

  std::string_view who_stops() const {
    if (!signal_.requested()) return "asked by another rank";
    // Whatever signal that got itself, which it has told.
    const bool launcher = host_claims() != nullptr && signal_.signal_number() == SIGUSR1;
    return launcher ? "asked by tandem launch" : signal_.signal_name();
  }

  bool speaks() const { return communicator_.rank() == 0; }

  /// What the schedule spans, wherever train.max_steps ends the run.
  std::int64_t scheduled_steps() const { return config_.epochs * sampler_.steps_per_epoch(); }
  std::int64_t total_steps() const {
    return config_.max_steps > 0 ? std::min(config_.max_steps, scheduled_steps())
                                 : scheduled_steps();
  }

  void restore() {
    position_ = {.steps_per_epoch = sampler_.steps_per_epoch(),
                 .early_stop_metric = config_.early_stop.metric,
                 .seed = config_.seed,
                 .global_batch = config_.global_batch,
                 .samples = parts_.datasets.train->size(),
                 .classes = parts_.train_data.classes,
                 .labels = parts_.train_data.labels,
                 .model = config_.model};
    if (speaks()) {
      run_announced(communicator_, patience(),
                    [&] { position_ = checkpoints_.start(replica_, position_); });
    }
    replica_.broadcast_from_root();
  }

  /// Last, since opening the folder of checkpoints may forget the best one.
  void share_position() {
    share_reached(position_, communicator_);
    replica_.optimizer().set_steps_taken(position_.step);
    early_stop_.restore(position_.early_stop);
  }

  /// What this run is, once, for the log and the metrics.
  void describe() {
    if (!speaks()) return;
    const RunDescription description{
        .config = config_,
        .topology = parts_.topology,
        .machine = parts_.machine,
        .datasets = parts_.datasets,
        .sampler = sampler_,
        .replica = replica_,
        .device = device_text(parts_.context),
        .threads = parts_.threads(),
        .evaluation_bytes = evaluator_.activation_bytes(),
        .communicator = parts_.reduction ? parts_.reduction->name() : communicator_.name(),
        .processes = communicator_.size(),
        .first_step = position_.step};
    log_description(description);
    record([&](RunRecord& run) { run.start(start_record(description)); });
  }

  /// Of the step after `steps` ones.
  double learning_rate(std::int64_t steps) const {
    return learning_rate_at(
        config_.schedule,
        {.steps_per_epoch = position_.steps_per_epoch, .total_steps = scheduled_steps()},
        config_.optimizer.learning_rate, steps);
  }

  /// Returns whether the run is to stop here.
  bool run_step(std::int64_t total) {
    own_report().set_step(position_.step + 1);
    StepResult result = replica_.step(
        [this]() -> const Batch& {
          const Batch* batch = loader_.next();
          TANDEM_CHECK(batch != nullptr, "the training data ended");
          bad_samples_.add(batch->bad);
          return *batch;
        },
        static_cast<float>(learning_rate(position_.step)), signal_.requested());
    ++position_.step;
    position_.batches += config_.accumulate;
    const bool epoch_done = position_.step_in_epoch() == 0 || position_.step == total;
    const bool check_due = config_.check_every > 0 && position_.step % config_.check_every == 0;
    bool save_due =
        config_.checkpoint_every_steps > 0 && position_.step % config_.checkpoint_every_steps == 0;
    count(result);
    if (result.stop || check_due || save_due || epoch_done) {
      const StepResult rest = replica_.settle_together();
      count(rest);
      result.stop |= rest.stop;
    }
    watch_.look();
    save_due |= result.stop;
    show_progress(total, epoch_done);
    // Before a checkpoint too, so that the records of a resumed run begin where those before end.
    if ((epoch_done || save_due) && !tally_.interval_is_empty()) log_interval();
    if (check_due) replica_.check_bits();
    if (epoch_done || save_due) record_bad_samples();
    if (epoch_done) return end_epoch(result.stop, save_due);
    if (save_due) pause_training([this] { save(); });
    return result.stop;
  }

  /// What steps did, which is recorded as soon as a device tells: it goes on meanwhile.
  void count(const StepResult& result) {
    require_finite_loss(result);
    tally_.add(result);
    if (result.steps > 0 && tally_.step() % config_.log_every == 0) log_interval();
  }

  void require_finite_loss(const StepResult& result) {
    if (result.failed_step == 0) return;
    watch_.finish_before_error();
    communicator_.barrier();  // the first rank to end ends all
    input_error("the loss is not finite at step {}: {}; lower optimizer.lr or check the data{}",
                result.failed_step, replica_.explain_non_finite_loss(), checkpoints_.newest_hint());
  }

  /// The epoch, counted from 1, that the last step belonged to.
  std::int64_t epoch_number() const { return position_.epoch_of(position_.step); }

  void log_interval() {
    const std::int64_t step = tally_.step();
    // To look at them takes waiting for the step that is under way.
    if (step == position_.step) require_finite_weights();
    Interval interval = tally_.take_interval();
    interval.gpu = gpu_use_.end(interval.sums.samples);
    record([&](RunRecord& run) {
      run.train(position_.epoch_of(step), step, interval, learning_rate(step - 1));
    });
  }

  void show_progress(std::int64_t total, bool epoch_done) {
    const LossSums& sums = tally_.epoch_sums();
    if (sums.samples == 0) return;  // the first step is under way still
    const auto samples = static_cast<double>(sums.samples);
    const double elapsed = tally_.training_seconds();
    const auto done = static_cast<double>(position_.step - first_step_);
    const std::int64_t before = (epoch_number() - 1) * position_.steps_per_epoch;
    const ProgressState state{
        .epoch = epoch_number(),
        .epochs = config_.epochs,
        .step = position_.step - before,
        .steps = std::min(position_.steps_per_epoch, total - before),
        .loss = sums.loss / samples,
        .top1 = static_cast<double>(sums.top1) / samples,
        .images_per_second = done * static_cast<double>(config_.global_batch) / elapsed,
        .eta_seconds = static_cast<double>(total - position_.step) * elapsed / done};
    record_->progress(state, epoch_done);
  }

  bool last_step() const { return position_.step == total_steps(); }
  bool evaluation_is_due() const { return last_step() || epoch_number() % config_.eval_every == 0; }

  /// Whether the run resumed here was ended between the end of an epoch and its evaluation.
  bool evaluation_is_pending() const {
    return position_.step > 0 && (position_.step_in_epoch() == 0 || last_step()) &&
           position_.evaluated_step < position_.step && evaluation_is_due();
  }

  /// Does what counts neither into the training rate nor into the next interval.
  void pause_training(const std::function<void()>& work) {
    const Clock::time_point start = Clock::now();
    work();
    const double seconds = seconds_since(start);
    gpu_use_.paused(seconds);
    tally_.pause(seconds);
  }

  /// Returns whether the run is to stop here: it was asked to before, or during the evaluation.
  bool end_epoch(bool stop, bool save_due = false) {
    const bool evaluates = evaluation_is_due() && !stop;
    save_due |= last_step() || epoch_number() % config_.checkpoint_every_epochs == 0;
    pause_training([&] {
      // Before the evaluation: mpirun may kill, seconds after a signal, while it is still running.
      const bool saves_first = evaluates ? is_worth_saving() : save_due;
      if (saves_first) save();
      // A run that is to stop leaves its evaluation to the run that resumes it.
      if (!evaluates) return;
      const std::optional<bool> best = evaluate();
      stop = !best;
      // Once more, so that who resumes here knows of the evaluation.
      if (best || !saves_first) save(best.value_or(false));
    });
    tally_.end_epoch();
    return stop;
  }

  /// Whether the coming evaluation may take training along, if it is broken off. As rank 0 says.
  bool is_worth_saving() const {
    std::int32_t worth =
        evaluation_seconds_ >= short_evaluation || seconds_since(saved_) >= little_training ? 1 : 0;
    communicator_.broadcast(Tensor(&worth, {1}, DType::i32), 0);
    return worth != 0;
  }

  void record_bad_samples() {
    if (!config_.data.skip_bad_samples) return;
    const BadSamples::Counts counts = bad_samples_.gather();
    if (counts.skipped == 0 || !speaks()) return;
    watch_.say_how_to_go_on(
        [&] { run_announced(communicator_, patience(), [&] { bad_samples_.write(); }); });
    record([&](RunRecord& run) {
      run.bad_samples(epoch_number(), position_.step, counts.skipped, counts.distinct);
    });
  }

  /// Returns whether this is the best evaluation so far; nothing where a signal broke it off.
  std::optional<bool> evaluate() {
    const Clock::time_point start = Clock::now();
    replica_.prepare_evaluation();
    const std::optional<Evaluation> found = evaluator_.run_unless([&](std::int64_t done) {
      watch_.look();
      record_->progress(CountState{.what = "evaluated",
                                   .done = done,
                                   .total = evaluator_.samples(),
                                   .seconds = seconds_since(start)});
      return signal_.requested();
    });
    if (!found) return std::nullopt;
    evaluation_seconds_ = seconds_since(start);
    const Evaluation& result = *found;
    bad_samples_.add(evaluator_.bad_samples());
    // Outputs that are not finite score a few hits by chance, which are no best.
    const bool best = std::isfinite(result.loss) && result.top1 > position_.best_top1;
    if (best) {
      position_.best_top1 = result.top1;
      position_.best_step = position_.step;
    }
    position_.evaluated_step = position_.step;
    early_stop_.watch(result, position_.step);
    position_.early_stop = early_stop_.state();
    record([&](RunRecord& run) { run.evaluation(epoch_number(), position_.step, result, best); });
    record_bad_samples();
    return best;
  }

  /// Mostly the loss of the next step shows such weights, but a maximum, for one, hides NaN.
  void require_finite_weights() {
    std::string wrong = replica_.non_finite_weights(position_.step);
    if (wrong.empty()) wrong = non_finite_statistics(replica_.store());
    if (wrong.empty()) return;
    watch_.finish_before_error();
    input_error("the weights are not finite at step {}: {}; lower optimizer.lr{}", position_.step,
                wrong, checkpoints_.newest_hint());
  }

  void save(bool best = false) {
    replica_.gather_shares();
    require_finite_weights();
    if (speaks()) {
      watch_.finish();
      run_announced(communicator_, patience(),
                    [&] { checkpoints_.begin(replica_, position_, best); });
    }
    saved_ = Clock::now();
  }

  StopSignal signal_;
  RunConfig config_;
  Communicator& communicator_;
  RunParts parts_;
  const DistributedSampler& sampler_ = parts_.sampler;
  DataLoader& loader_ = parts_.loader;
  Replica& replica_ = parts_.replica;
  Transform test_transform_;
  Evaluator evaluator_;
  std::optional<RunLock> lock_;  // before whatever reads or writes the folder; rank 0's
  RunCheckpoints checkpoints_;
  CheckpointWatch watch_{checkpoints_, communicator_, [this] { return patience(); }};
  EarlyStop early_stop_;
  GpuUse gpu_use_;
  BadSamples bad_samples_;
  TrainingPosition position_;
  std::optional<RunRecord> record_;

  bool trains_ = false;  // there is something to go on with
  std::int64_t first_step_ = 0;
  double evaluation_seconds_ = std::numeric_limits<double>::infinity();  // of the last one
  Clock::time_point saved_ = Clock::now();
  StepTally tally_{[this] { return loader_.wait_seconds(); }};
};

Trainer::Trainer(const RunConfig& config, const RunPlace& place, Communicator& communicator) {
  own_report().set_step(ProcessReport::before_first_step);
  run_ = std::make_unique<Run>(config, place, communicator);
}
Trainer::~Trainer() = default;

TrainOutcome Trainer::run() { return run_->run(); }

}  // namespace tandem
