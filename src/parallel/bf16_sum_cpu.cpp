#include <bit>

#include "parallel/bf16_sum.h"

namespace tandem {
namespace {

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could carry a NaN's bits over to those of a number: it is made a quiet one instead.
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((nan ? bits | 0x400000U : rounded) >> 16);
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace

void pack_bf16(const Bf16SumLayout& layout, const float* values, std::uint16_t* packed) {
#pragma omp simd
  for (std::int64_t i = 0; i < layout.elements; ++i) packed[i] = to_bf16(values[i]);
  for (std::int64_t i = layout.elements; i < layout.padded(); ++i) packed[i] = 0;
}

void sum_bf16(const Bf16SumLayout& layout, int rank, const std::uint16_t* received,
              std::uint16_t* own) {
  const auto shard_of = [&](int from) {
    return from == rank ? own : received + from * layout.shard;
  };
  for (std::int64_t i = 0; i < layout.shard; ++i) {
    float sum = from_bf16(shard_of(0)[i]);
    for (int from = 1; from < layout.ranks; ++from) sum += from_bf16(shard_of(from)[i]);
    own[i] = to_bf16(sum);
  }
}

void unpack_bf16(const Bf16SumLayout& layout, const std::uint16_t* packed, float* values) {
#pragma omp simd
  for (std::int64_t i = 0; i < layout.elements; ++i) values[i] = from_bf16(packed[i]);
}

}  // namespace tandem
