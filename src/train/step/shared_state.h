#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "graph/parameters.h"
#include "optim/optimizer.h"
#include "optim/optimizer_config.h"
#include "parallel/communicator.h"
#include "parallel/slice_share.h"
#include "train/run_config.h"

namespace tandem {

// One state for the ranks of a device, or of a host whose CPUs compute (parallel.shared_state):
// values, weights and the optimizer's state lie once in its memory, each rank updates its share of
// them, and all read the whole. BatchNorm's running statistics, gradients and averages stay each
// rank's own; a host's ranks keep gradients, too, where the others can read them, so that they are
// summed without being copied.
//
// Readers and writers are kept apart thus. Backward reads weights up to the gradient that completes
// the last bucket, and no rank has that bucket's sums before all ranks of the device have their
// backward behind them: so nobody updates while another still reads. After its update each rank
// waits for the others' (SharedDevice::wait_for_each_other()), so nobody reads before all is
// updated. All ranks decide alike whether a step is skipped, since they see the same sums.

/// How many tensors as large as the gradients the optimizer's state has.
std::size_t state_arenas(const OptimizerConfig& optimizer);

/// Collective, before the store is used: moves its values to shared memory where the run wants that
/// and `reduction` has such, with room for all of the state. Returns the device then, else null.
SharedDevice* share_values(const RunConfig& config, Communicator& reduction, ParameterStore& store);

/// Collective: the run's optimizer over the store; on a shared device of this rank's share of it
/// alone, with the state in shared memory. `shares`: what of it this rank updates, where that is
/// not all (train/step/sharded_update.h).
std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, ParameterStore& store,
                                          SharedDevice* device,
                                          const std::optional<std::vector<ArenaRange>>& shares);

}  // namespace tandem
