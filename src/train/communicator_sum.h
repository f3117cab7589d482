#pragma once

#include <vector>

#include "layers/rank_sum.h"
#include "parallel/communicator.h"

namespace tandem {

/// Sums of doubles over the ranks of a communicator of a host kind: gathered, then added in rank
/// order, so that doubles stay doubles and every rank gets the same bits.
class CommunicatorSum final : public RankSum {
 public:
  /// The communicator outlives this.
  explicit CommunicatorSum(Communicator& communicator) : communicator_(communicator) {}

  int ranks() const override { return communicator_.size(); }
  void reserve(std::size_t count) override;
  void sum(std::span<double> values) override;

 private:
  Communicator& communicator_;
  std::vector<double> gathered_;
};

}  // namespace tandem
