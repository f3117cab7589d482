#pragma once

#include <cstdint>

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// The steps of Communicator::all_reduce_bf16_async() that compute; kinds do the moving between
/// them. For kinds alone.
///
/// The elements are cut into one shard per rank, the last ones filled up with zeros. Each rank
/// packs its elements as bf16, sends each rank its shard of them (all-to-all), adds up the shards
/// that it is sent in f32, rounds the sums once, gives them to all (all-gather), and unpacks what
/// it gets. So 2 bytes an element go each way, as 4 do in an all-reduce of f32.
struct Bf16SumLayout {
  /// Shards begin where 16-byte accesses may.
  static constexpr std::int64_t pack = 8;

  Bf16SumLayout(std::int64_t all_elements, int all_ranks)
      : elements(all_elements),
        ranks(all_ranks),
        shard((all_elements + all_ranks * pack - 1) / (all_ranks * pack) * pack) {}

  /// Elements of all shards.
  std::int64_t padded() const { return shard * ranks; }
  /// Scratch: the rank's own elements, packed, in which the sums are gathered afterwards; and
  /// behind them the shards that it is sent, by rank.
  std::int64_t scratch_elements() const { return 2 * padded(); }

  std::int64_t elements;
  int ranks;
  std::int64_t shard;  ///< of each rank
};

// bf16 as its 16 bits. Rounding is to nearest, ties to even; a NaN stays one.

/// packed (padded()) = values (elements), zeros behind them.
void pack_bf16(const Bf16SumLayout& layout, const float* values, std::uint16_t* packed);
/// own (shard): the rank's packed elements of its own shard, which become the sum over the ranks,
/// added up in their order. received (padded()): the others' elements of that shard, by rank.
void sum_bf16(const Bf16SumLayout& layout, int rank, const std::uint16_t* received,
              std::uint16_t* own);
/// values (elements) = packed (padded()).
void unpack_bf16(const Bf16SumLayout& layout, const std::uint16_t* packed, float* values);

// The same of a device's memory, enqueued on a stream. `packed`, `received` and `own` are 16-byte
// aligned.

void pack_bf16(CUstream_st* stream, const Bf16SumLayout& layout, const float* values,
               std::uint16_t* packed);
void sum_bf16(CUstream_st* stream, const Bf16SumLayout& layout, int rank,
              const std::uint16_t* received, std::uint16_t* own);
void unpack_bf16(CUstream_st* stream, const Bf16SumLayout& layout, const std::uint16_t* packed,
                 float* values);

}  // namespace tandem
