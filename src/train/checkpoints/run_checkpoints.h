#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/file_work.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/checkpoint_store.h"
#include "train/run_config.h"
#include "train/step/replica.h"

namespace tandem {

/// Where a run writes and what it goes on from.
struct RunPlace {
  std::filesystem::path folder;
  bool resume = false;
  /// A checkpoint or another run's folder to resume from; empty: `folder`, of which the newest
  /// checkpoint is taken, or the best one where there is no other.
  std::filesystem::path resume_from;
  /// The file that the config was read from; empty: none.
  std::filesystem::path config{};
};

/// Whether the run goes on in the folder that it is resumed from: by that folder, by one of its
/// checkpoints, or by a checkpoint put beside them. Another run's folder inside this one's is not
/// it.
bool resumes_in_place(const RunPlace& place);

/// Throws InputError where the folder holds a run other than the one that goes on, or, without a
/// run, the config itself as the file that the run would write its own to.
void require_fresh_folder(const RunPlace& place);

/// Throws InputError where a run is to go on from what is not there: for rank 0, which reads it.
void require_resumable(const RunPlace& place);

/// What rank 0 does with files of weights in a run: the start from a checkpoint or from
/// train.init, and the checkpoints that the run writes, one at a time and beside its steps.
class RunCheckpoints {
 public:
  RunCheckpoints(const RunPlace& place, const RunConfig& config);
  /// Waits two seconds for what is being written, and gives it up. What writing it threw goes to
  /// the log file.
  ~RunCheckpoints();
  RunCheckpoints(const RunCheckpoints&) = delete;
  RunCheckpoints& operator=(const RunCheckpoints&) = delete;

  /// Fills the replica with what the run starts from, and returns `fresh` moved to there. Throws
  /// InputError where there is nothing to resume, or where a file is of another model or run.
  TrainingPosition start(Replica& replica, const TrainingPosition& fresh);
  /// Makes the folder and sets the checkpoints of later steps than `position` aside; returns
  /// whether there were any. Where the run goes on in place it keeps the checkpoint that it goes on
  /// from as that of its step. The best checkpoint is that of position.best_step from then on,
  /// which a run may have been ended before naming so, or which may have been set aside; `position`
  /// forgets its best evaluation where there is none of that step any more.
  bool open(TrainingPosition& position) const;

  /// Copies what a checkpoint holds, and has another thread write it. To be called with finite
  /// weights alone, once the one before has been waited for.
  void begin(Replica& replica, TrainingPosition position, bool best);
  /// Looks, as FileTask::look() does, at the one that is being written, if there is one, and throws
  /// what writing it threw: SystemError where a disk is full, for one.
  void look(const FilePatience& patience);
  /// Waits for it instead.
  void wait(const FilePatience& patience, const std::function<void()>& meanwhile);

  /// How a run that failed goes on once the cause is mended: with --resume where the folder holds a
  /// checkpoint, else from the start; both where the folder cannot be listed. For messages: one
  /// that is being written counts if it is whole in a moment.
  std::string way_on() const;
  /// "; the last checkpoint is PATH", or nothing.
  std::string newest_hint() const;

 private:
  std::filesystem::path to_resume() const;
  void keep_start(const TrainingPosition& position) const;
  void restore_best(TrainingPosition& position) const;
  std::int64_t load_init(Replica& replica) const;
  std::int64_t read_init(Replica& replica) const;

  RunPlace place_;
  const RunConfig& config_;
  CheckpointStore store_;
  /// What start() took up, of a link the file, which the run may remove; empty where nothing.
  std::filesystem::path taken_up_;
  std::optional<FileTask> writing_;
};

}  // namespace tandem
