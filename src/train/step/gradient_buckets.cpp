#include "train/step/gradient_buckets.h"

#include <algorithm>
#include <limits>

namespace tandem {

std::vector<ParameterSlice> slices_of(std::span<const Parameter> parameters) {
  std::vector<ParameterSlice> slices;
  for (const Parameter& parameter : parameters) {
    slices.push_back({parameter.name, parameter.offset, parameter.shape.elements()});
  }
  return slices;
}

std::vector<Bucket> gradient_buckets(const RunConfig& config, const ParameterStore& store,
                                     SumCost cost, GradientMemory memory) {
  const bool fast = cost == SumCost::little_fast;
  std::int64_t bytes = fast ? RunConfig::small_bucket_bytes : RunConfig::usual_bucket_bytes;
  std::size_t apart = 0;
  if (memory == GradientMemory::passing) {
    // What backward leaves to another queue, weights, need not be kept for as long as the rest.
    bytes = RunConfig::passing_bucket_bytes;
    apart = store.first_trained_norm();
  } else if (cost == SumCost::each_slow) {
    bytes = std::numeric_limits<std::int64_t>::max();
  }
  bytes = config.bucket_bytes.value_or(bytes);
  const std::int64_t first_bytes =
      cost == SumCost::each_slow ? bytes : std::min(RunConfig::usual_first_bucket_bytes, bytes);
  return cut_buckets(slices_of(store.trained()),
                     {.first_bytes = config.first_bucket_bytes.value_or(first_bytes),
                      .bytes = bytes,
                      .taper = config.taper_buckets.value_or(fast),
                      .apart = apart});
}

std::vector<ParameterRange> groups_of(std::span<const Bucket> buckets) {
  std::vector<ParameterRange> groups;
  for (const Bucket& bucket : buckets) groups.push_back({bucket.first, bucket.last});
  return groups;
}

}  // namespace tandem
