#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"

namespace tandem {

/// Sums over the data-parallel ranks, for kernels that work over the global batch (synchronised
/// batch normalisation): all that a layer sees of other ranks. Calls are collective: every rank
/// makes the same ones in the same order, with the same counts.
class RankSum {
 public:
  virtual ~RankSum() = default;

  virtual int ranks() const = 0;
  /// Makes room, so that sum() of up to `count` values allocates nothing.
  virtual void reserve(std::size_t count) = 0;
  /// Replaces each value by its sum over the ranks, the same bits on all of them.
  virtual void sum(std::span<double> values) = 0;
  /// The same for values in a device's memory, enqueued on the stream of the context whose kernels
  /// asked. Throws Error where the kind cannot.
  virtual void sum_on_device(double* /*values*/, std::size_t /*count*/) {
    throw Error("this sum over ranks does not reach a device's memory");
  }
};

}  // namespace tandem
