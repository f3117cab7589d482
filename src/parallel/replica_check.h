#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/slice_hashes.h"

namespace tandem {

/// One line of what all ranks must agree upon before they communicate.
struct PlanEntry {
  std::string name;  ///< a parameter's or buffer's
  Shape shape{};
  DType dtype = DType::f32;
  int bucket = -1;  ///< the bucket that reduces its gradient; -1: none does
};

/// Collective. Returns where every rank passed the same entries in the same order; otherwise throws
/// the same Error on all ranks, naming the first entry that differs, and what which ranks have.
/// Called once before the first collective on tensors: ranks that disagree about sizes would hang
/// or, worse, mix up parameters.
void check_same_plan(Communicator& communicator, std::span<const PlanEntry> entries);

/// Collective, over a host kind. Returns where every rank's arena holds the same bits, as its
/// hashes tell; otherwise throws the same Error on all ranks, naming the first slice that differs
/// and the ranks that differ from rank 0. `slices`: those that were hashed, the same on all ranks.
/// Only hashes travel.
void check_replicas(Communicator& communicator, const SliceHashes& hashes,
                    std::span<const ParameterSlice> slices);

/// Collective: overwrites the tensors of every rank with the root's. All ranks pass tensors of the
/// same sizes in the same order.
void broadcast_state(Communicator& communicator, std::span<const Tensor> tensors, int root = 0);

}  // namespace tandem
