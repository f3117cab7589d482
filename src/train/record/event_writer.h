#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/append_file.h"
#include "train/record/event_record.h"

namespace tandem {

/// One session's TensorBoard event file in a run's folder. Each event is in the file as soon as it
/// is written; a killed run leaves at most one torn record, at which readers stop without harm.
/// Rank 0 alone makes one.
///
/// The name is events.out.tfevents.SECONDS.HOST.PROCESS: readers know event files by "tfevents" and
/// take a folder's files in the order of their names. SECONDS is the time, and later than that of
/// every file already there, so that this order is that of the sessions whatever the clock does.
class EventWriter {
 public:
  /// Begins a session that goes on after `step` (0 for a fresh run): what earlier sessions of the
  /// folder recorded of later steps is superseded. Throws SystemError where the file cannot be
  /// made.
  EventWriter(const std::filesystem::path& folder, std::int64_t step);

  /// Adds the values of a step, at the present time. Throws SystemError where they cannot be
  /// written.
  void write(std::int64_t step, std::span<const EventScalar> scalars);

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace tandem
