#pragma once

#include <functional>

#include "base/file_work.h"
#include "parallel/communicator.h"
#include "train/checkpoints/run_checkpoints.h"

namespace tandem {

/// How a run stands by its checkpoints while they are written: it looks after the one in writing,
/// waits for it where it must, and says how to go on where that fails. On ranks other than 0, which
/// write none, these do nothing.
class CheckpointWatch {
 public:
  /// `patience`: with the files of the run's folder, as it is by then. All outlives this.
  CheckpointWatch(RunCheckpoints& checkpoints, Communicator& communicator,
                  std::function<FilePatience()> patience);

  /// Throws SystemError, with how to go on, where the one in writing has failed, FileTimeout where
  /// it hangs.
  void look();
  /// Waits for the one in writing, while other ranks learn that this one is at it.
  void finish();
  /// The same before an error, which is told instead of one in writing: what is being written is
  /// what to go on from.
  void finish_before_error();
  /// Runs `write`, and adds to its SystemError how to go on.
  void say_how_to_go_on(const std::function<void()>& write) const;

 private:
  RunCheckpoints& checkpoints_;
  Communicator& communicator_;
  std::function<FilePatience()> patience_;
};

}  // namespace tandem
