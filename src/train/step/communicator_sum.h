#pragma once

#include <vector>

#include "layers/rank_sum.h"
#include "parallel/communicator.h"

namespace tandem {

/// Sums of doubles over the ranks of a communicator. sum(), over a host kind: gathered, then added
/// in rank order, so that doubles stay doubles and every rank gets the same bits. sum_on_device(),
/// over a device kind: as Communicator::sum_doubles().
class CommunicatorSum final : public RankSum {
 public:
  /// The communicator outlives this.
  explicit CommunicatorSum(Communicator& communicator) : communicator_(communicator) {}

  int ranks() const override { return communicator_.size(); }
  void reserve(std::size_t count) override;
  void sum(std::span<double> values) override;
  void sum_on_device(double* values, std::size_t count) override;

 private:
  Communicator& communicator_;
  std::vector<double> gathered_;
};

}  // namespace tandem
