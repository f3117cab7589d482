#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "device/any_context.h"
#include "parallel/gradient_bucketer.h"

namespace tandem {

class CudaContext;

/// Hashes of an arena's f32 elements, bit by bit: the same on every device.
struct SliceHashes {
  std::vector<std::int64_t> slices;  ///< in their order
  std::int64_t whole = 0;            ///< of the arena, with what lies between slices
};

/// Hashes the arena where it lies. The slices lie within it, one behind the other as in
/// cut_buckets. Throws Error naming one that does not.
SliceHashes hash_slices(AnyContext& context, const Tensor& arena,
                        std::span<const ParameterSlice> slices);

/// A run of elements.
struct ElementRange {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

/// What element `i`, less than 2^32, adds to the hash of a range of it, which is a sum modulo 2^64:
/// so the order does not matter. mix64 is a bijection, so that no single change is absorbed.
constexpr std::uint64_t element_hash(std::uint64_t i, std::uint32_t bits) {
  return mix64((i << 32) | bits);
}

/// The hash of each range of the elements, given as their bits in the context's memory.
std::vector<std::uint64_t> hash_ranges(CpuContext& context, const std::uint32_t* elements,
                                       std::span<const ElementRange> ranges);
std::vector<std::uint64_t> hash_ranges(CudaContext& context, const std::uint32_t* elements,
                                       std::span<const ElementRange> ranges);

}  // namespace tandem
