#include <numeric>

#include "optim/gradient_norm_kernels.h"
#include "optim/step_control_kernels.h"

namespace tandem {

void prepare_update(CpuContext& context, const UpdatePreparation& preparation) {
  double sum = 0.0;
  if (preparation.rules.measures()) {
    square_sums(context, preparation.blocks, preparation.gradients, preparation.block_sums);
    sum = std::accumulate(preparation.block_sums.begin(), preparation.block_sums.end(), 0.0);
  }
  decide_step(preparation.rules, *preparation.loss, sum, *preparation.control);
}

}  // namespace tandem
