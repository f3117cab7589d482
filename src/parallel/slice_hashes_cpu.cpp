#include "parallel/slice_hashes.h"

namespace tandem {

std::vector<std::uint64_t> hash_ranges(CpuContext& context, const std::uint32_t* elements,
                                       std::span<const ElementRange> ranges) {
  std::vector<std::uint64_t> hashes;
  for (const ElementRange& range : ranges) {
    const std::int64_t end = range.offset + range.elements;
    std::uint64_t sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum) num_threads(context.threads())
    for (std::int64_t i = range.offset; i < end; ++i) {
      sum += element_hash(static_cast<std::uint64_t>(i), elements[i]);
    }
    hashes.push_back(sum);
  }
  return hashes;
}

}  // namespace tandem
