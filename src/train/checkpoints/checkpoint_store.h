#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace tandem {

/// A checkpoint of a run: how many optimizer steps were done when it was written, and its file.
struct StepCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;

  bool operator==(const StepCheckpoint&) const = default;
};

/// The folder `checkpoints` of a run: step-00001234.safetensors by steps done, and
/// best.safetensors. It knows names and files, not what is inside; one process at a time writes.
class CheckpointStore {
 public:
  /// Touches nothing on disk.
  explicit CheckpointStore(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  /// Makes the folder where it is missing. Throws InputError where that fails.
  void create_folder() const;

  std::filesystem::path path_for_step(std::int64_t step) const;
  std::filesystem::path best_path() const;

  /// The step that the best checkpoint says it is of; nullopt where there is none, or where it is
  /// damaged (a warning says why).
  std::optional<std::int64_t> best_step() const;

  /// Whether any checkpoint is there, step or best.
  bool holds_any() const;

  /// Step checkpoints by rising step; none where there is no folder.
  std::vector<StepCheckpoint> list() const;

  /// The checkpoint of the highest step that opens and whose checksum holds. A damaged one is
  /// skipped with a warning that names it. nullopt where there is none at all; where there are some
  /// and none is sound, an InputError, so that a run never starts over unasked; it names the best
  /// one where that is sound.
  std::optional<StepCheckpoint> newest() const;

  /// What a run that goes on in this folder takes up: newest(), or the best one where there is no
  /// other. nullopt where there is neither; throws as newest().
  std::optional<StepCheckpoint> to_resume() const;
  /// A sound checkpoint of that step, also one that was set aside; nullopt where there is none.
  std::optional<std::filesystem::path> find(std::int64_t step) const;

  /// Removes all but the `count` (at least 1) highest steps, those that drop_after() set aside, and
  /// temporary files that dead writers left. Not to be called while this process writes a
  /// checkpoint.
  void keep_last(int count) const;

  /// Sets the checkpoints of higher steps than `step` aside, as
  /// step-NNNNNNNN.safetensors.superseded, until keep_last(): a run that goes on from there leaves
  /// them behind, and they would be taken for its newest. A best one of a higher step is set aside
  /// as best-of-step-NNNNNNNN.safetensors, a damaged one as best-damaged.safetensors. Returns
  /// whether there were any but best ones.
  bool drop_after(std::int64_t step) const;

  /// Makes best.safetensors the file `checkpoint` (of this folder's file system or another): a hard
  /// link where the file system has them, else a copy, renamed into place. It outlives the
  /// original's removal.
  void set_best(const std::filesystem::path& checkpoint) const;
  /// The same with the name of a step, which `checkpoint` is of.
  void set_step(const std::filesystem::path& checkpoint, std::int64_t step) const;

 private:
  void put(const std::filesystem::path& checkpoint, const std::filesystem::path& place) const;

  std::filesystem::path folder_;
};

}  // namespace tandem
