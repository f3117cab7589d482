#include "train/checkpoints/training_position.h"

#include <type_traits>

namespace tandem {

void share_reached(TrainingPosition& position, Communicator& communicator) {
  struct Reached {
    std::int64_t step, batches, evaluated_step, best_step;
    double best_top1;
    EarlyStopState early_stop;
  };
  static_assert(std::is_trivially_copyable_v<Reached>);
  Reached reached{position.step,      position.batches,   position.evaluated_step,
                  position.best_step, position.best_top1, position.early_stop};
  communicator.broadcast(Tensor(&reached, {sizeof(Reached)}, DType::u8), 0);
  position.step = reached.step;
  position.batches = reached.batches;
  position.evaluated_step = reached.evaluated_step;
  position.best_step = reached.best_step;
  position.best_top1 = reached.best_top1;
  position.early_stop = reached.early_stop;
}

}  // namespace tandem
