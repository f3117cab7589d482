#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

/// Splits a test set over the ranks so that every sample comes exactly once, whatever their count,
/// and every rank has the same number of batches, as collectives need. Batch k of rank r is
/// [(k world + r) B, + B), cut at the end of the set: the last batches may hold fewer samples or
/// none.
class EvaluationSampler {
 public:
  struct Options {
    std::int64_t size = 0;
    std::int64_t batch = 0;  ///< B, samples a batch of one rank
    int world = 1;
    int rank = 0;
  };
  explicit EvaluationSampler(const Options& options);

  /// Batches of each rank.
  std::int64_t batches() const;
  /// The samples of batch `k`, 0 <= k < batches(): B of them, fewer, or none.
  std::vector<std::int64_t> indices(std::int64_t k) const;

 private:
  Options options_;
};

}  // namespace tandem
