#pragma once

// Fragments of matrices of 16-bit elements for tensor cores' products of 16 x 16 and 16 x 8, as a
// warp holds them (PTX ISA, mma.m16n8k16).

#include "layers/waiting_pack_cuda.cuh"

namespace tandem {

constexpr int fragment_rows = 16;
constexpr int fragment_depth = 16;

namespace fragments {

/// Four matrices of 8 x 8 from shared memory; each lane gives the begin of a row, 16-byte aligned.
__device__ __forceinline__ void load_four(unsigned (&words)[4], const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address));
}

/// The same, each matrix transposed.
__device__ __forceinline__ void load_four_transposed(unsigned (&words)[4], const void* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address));
}

}  // namespace fragments

/// 16 rows of 16 elements.
template <typename T>
struct LeftFragment {
  unsigned words[4];

  /// From its transpose.
  __device__ __forceinline__ void load_transposed(const T* from, int pitch, int lane) {
    fragments::load_four_transposed(words,
                                    from + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
  }

  /// Rows are `pitch` elements apart.
  __device__ __forceinline__ void load(const T* from, int pitch, int lane) {
    fragments::load_four(words, from + (lane % 16) * pitch + lane / 16 * 8);
  }
};

/// Two right operands of 16 x 8, side by side, from their transposes: 16 rows of 16 elements.
template <typename T>
struct RightFragments {
  unsigned words[4];

  /// Not from the transposes: 16 rows of 16 elements, of which the operands' columns are rows'
  /// elements.
  __device__ __forceinline__ void load_plain(const T* from, int pitch, int lane) {
    fragments::load_four_transposed(words, from + (lane % 16) * pitch + lane / 16 * 8);
  }

  __device__ __forceinline__ void load(const T* from, int pitch, int lane) {
    fragments::load_four(words, from + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
  }
};

/// 16 x 8 sums. A thread has columns 2 (lane % 4) and the next: of row lane / 4, then of that
/// plus 8.
template <typename T>
struct ProductFragment {
  float sums[4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& sum : sums) sum = 0.0F;
  }

  /// Adds left * the right operand of that place.
  __device__ __forceinline__ void add(const LeftFragment<T>& left, const RightFragments<T>& right,
                                      int place) {
    const unsigned low = right.words[2 * place];
    const unsigned high = right.words[2 * place + 1];
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]),
            "r"(low), "r"(high));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]),
            "r"(low), "r"(high));
    }
  }
};

/// Columns of four products side by side, of which a thread then has eight neighbouring ones, 16
/// bytes, where the rows of the right operand's transpose are put in another order.
constexpr int dealt_columns = 32;

/// The row that is put at a place: of the four products a thread has the columns 2 q and 2 q + 1 of
/// each.
__device__ __forceinline__ int dealt_row(int place) {
  const int column = place % 8;
  const int product = place / 8 % 4;
  return place / dealt_columns * dealt_columns + column / 2 * 8 + product * 2 + column % 2;
}

/// Where dealt_row() puts a row.
__device__ __forceinline__ int dealt_place(int row) {
  const int quad = row / 8 % 4;
  const int product = row % 8 / 2;
  return row / dealt_columns * dealt_columns + product * 8 + quad * 2 + row % 2;
}

}  // namespace tandem
