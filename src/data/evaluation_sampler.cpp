#include "data/evaluation_sampler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tandem {

EvaluationSampler::EvaluationSampler(const Options& options) : options_(options) {
  TANDEM_CHECK(options.world >= 1 && options.rank >= 0 && options.rank < options.world &&
                   options.batch >= 1 && options.size >= 0,
               "a sampler of {} samples, batch {}, rank {} of {}", options.size, options.batch,
               options.rank, options.world);
}

std::int64_t EvaluationSampler::batches() const {
  const std::int64_t per_round = options_.batch * options_.world;
  return (options_.size + per_round - 1) / per_round;
}

std::vector<std::int64_t> EvaluationSampler::indices(std::int64_t k) const {
  TANDEM_CHECK(k >= 0 && k < batches(), "no evaluation batch {}", k);
  const std::int64_t first =
      std::min(options_.size, (k * options_.world + options_.rank) * options_.batch);
  const std::int64_t end = std::min(options_.size, first + options_.batch);
  std::vector<std::int64_t> all(static_cast<std::size_t>(end - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace tandem
