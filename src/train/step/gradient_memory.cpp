#include "train/step/gradient_memory.h"

#include <variant>

namespace tandem {

bool updates_one_by_one(const RunConfig& config) {
  return config.optimizer.clip_norm == 0.0 && config.precision != Precision::fp16 &&
         !std::holds_alternative<LarsOptions>(config.optimizer.rule);
}

GradientMemory gradient_memory(const RunConfig& config, int ranks, bool on_device) {
  if (ranks > 1 || !on_device || config.accumulate > 1) return GradientMemory::stored;
  return config.update_in_backward && updates_one_by_one(config) ? GradientMemory::passing
                                                                 : GradientMemory::lent;
}

}  // namespace tandem
