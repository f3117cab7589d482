#include "train/checkpoints/checkpoint_watch.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tandem {

CheckpointWatch::CheckpointWatch(RunCheckpoints& checkpoints, Communicator& communicator,
                                 std::function<FilePatience()> patience)
    : checkpoints_(checkpoints), communicator_(communicator), patience_(std::move(patience)) {}

void CheckpointWatch::look() {
  say_how_to_go_on([this] { checkpoints_.look(patience_()); });
}

void CheckpointWatch::finish() {
  say_how_to_go_on(
      [this] { checkpoints_.wait(patience_(), [this] { communicator_.report_progress(); }); });
}

void CheckpointWatch::finish_before_error() {
  try {
    finish();
  } catch (const FileTimeout&) {
    throw;  // it has spoken
  } catch (const SystemError& error) {
    write_log_line(LogPlace::file, LogLevel::warning, error.what());
  }
}

void CheckpointWatch::say_how_to_go_on(const std::function<void()>& write) const {
  try {
    write();
  } catch (const FileTimeout&) {
    throw;  // it says what to do, and checkpoints lie where nothing answers
  } catch (const SystemError& error) {
    system_error("{}; mend that and {}", error.what(), checkpoints_.way_on());
  }
}

}  // namespace tandem
