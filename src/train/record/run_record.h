#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "train/checkpoints/checkpoint_store.h"
#include "train/evaluator.h"
#include "train/gpu_use.h"
#include "train/record/event_writer.h"
#include "train/record/metrics_writer.h"
#include "train/record/progress.h"
#include "train/run_config.h"

namespace tandem {

/// A stretch of training steps, summed up for one record.
struct Interval {
  LossSums sums;
  std::int64_t steps = 0;
  /// Of the last step, before clipping; absent where gradients are not clipped.
  std::optional<double> gradient_norm{};
  double seconds = 0.0;
  double data_wait_seconds = 0.0;  ///< of rank 0: waiting for decoded batches
  /// Of rank 0, its host or its device: waiting for gradients after backward.
  double exposed_communication_seconds = 0.0;
  /// Of the GPUs of the run over a stretch that ends with this interval and may have begun long
  /// before (train/gpu_use.h); absent where it is too short still, and where the run computes on
  /// CPUs.
  std::optional<GpuStretch> gpu{};
};

/// How a run ended. One that an exception or a kill ends leaves no such record.
enum class RunEnding : std::uint8_t {
  finished,    ///< all steps are done
  early_stop,  ///< train.early_stop_*
  stopped,     ///< by a signal
};

/// Where a run's record begins.
struct RecordStart {
  std::int64_t step = 0;   ///< that the run goes on from, 0 for a new one
  bool goes_on = false;    ///< the folder is the run's own
  bool evaluates = false;  ///< it begins by the evaluation of that step
  bool idle = false;       ///< nothing is left to do: the folder's config.toml stays as it is
  /// It leaves checkpoints of later steps behind, whose records stay in metrics.jsonl.superseded.
  bool supersedes = false;
};

/// What rank 0 writes into a run's folder and on the terminal: config.toml (the resolved config),
/// metrics.jsonl, TensorBoard's event file, train.log, and progress. On other ranks
/// every call does nothing.
class RunRecord {
 public:
  /// The folder is there. Records of what the run does from `start` on are dropped, but for
  /// TensorBoard's of an evaluation that is done again. In the run's
  /// own folder, what differs from the config.toml there is told, which config-until-step-N.toml
  /// then keeps. The log stays open for what is said after the run, errors included. `way_on` says
  /// what to do once what cannot be written is mended.
  RunRecord(const std::filesystem::path& folder, const RunConfig& config, bool speaker,
            const RecordStart& start, std::function<std::string()> way_on);
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  /// Each of these throws InputError where the metrics or the log cannot be written.

  /// The run's facts: machine, ranks, model, data.
  void start(const JsonLine& facts);
  void train(std::int64_t epoch, std::int64_t step, const Interval& interval, double rate);
  void evaluation(std::int64_t epoch, std::int64_t step, const Evaluation& result, bool best);
  /// `skipped`: times since the last such record, over all ranks; `distinct`: since the run began.
  void bad_samples(std::int64_t epoch, std::int64_t step, std::int64_t skipped,
                   std::int64_t distinct);
  /// `reason`: why the run did not do all of its `total` steps; empty where it did.
  void end(RunEnding ending, std::int64_t step, std::int64_t total, std::string_view reason);
  void progress(const ProgressState& state, bool epoch_done);
  void progress(const CountState& state);

 private:
  /// Appends a record, and with scalars the event of `step`. A full disk ends the run with the
  /// remedy.
  void write(const JsonLine& record, std::int64_t step = 0,
             std::span<const EventScalar> scalars = {});

  std::function<std::string()> way_on_;
  std::optional<MetricsWriter> metrics_;
  std::optional<EventWriter> events_;
  bool skips_bad_samples_;
  std::optional<Progress> progress_;
};

}  // namespace tandem
