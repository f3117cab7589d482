#pragma once

// How batch normalisation's kernels join their result with another tensor, as ShuffleJoin does:
// element i of the result is element 2 i + 1 of the joined tensor, whatever the number of channels,
// and element 2 i is the other tensor's of that pixel and channel. The other tensor has `times` the
// result's channels, of which the first ones are taken.

#include "layers/normalisation/batch_norm_plan_cuda.cuh"
#include "layers/normalisation/resident_tiles_cuda.cuh"
#include "tensor/packed_words.cuh"

namespace tandem {

/// 2 V neighbouring elements of the joined tensor in whole registers: V of the other tensor and V
/// of the result in turn. Aligned as 16 bytes, or as all of it where that is less.
template <typename T, int V>
struct JoinedPack {
  static constexpr int of_each = WaitingPack<T, V>::count;
  static constexpr int count = 2 * of_each;
  static constexpr int at_once = count < 4 ? count : 4;
  unsigned words[count];

  static __device__ __forceinline__ JoinedPack load(const T* from) {
    JoinedPack made;
#pragma unroll
    for (int w = 0; w < count; w += at_once) {
      const auto some = Words<4 * at_once>::load(from + w * Lanes<T>::count);
#pragma unroll
      for (int i = 0; i < at_once; ++i) made.words[w + i] = some.word[i];
    }
    return made;
  }
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (int w = 0; w < count; w += at_once) {
      Words<4 * at_once> some;
#pragma unroll
      for (int i = 0; i < at_once; ++i) some.word[i] = words[w + i];
      some.store(to + w * Lanes<T>::count);
    }
  }

  static __device__ __forceinline__ JoinedPack of(const WaitingPack<T, V>& other,
                                                  const WaitingPack<T, V>& result) {
    JoinedPack made;
#pragma unroll
    for (int w = 0; w < of_each; ++w) {
      made.words[2 * w] = low_halves(other.words[w], result.words[w]);
      made.words[2 * w + 1] = high_halves(other.words[w], result.words[w]);
    }
    return made;
  }
  __device__ __forceinline__ WaitingPack<T, V> other() const {
    WaitingPack<T, V> part;
#pragma unroll
    for (int w = 0; w < of_each; ++w) part.words[w] = low_halves(words[2 * w], words[2 * w + 1]);
    return part;
  }
  __device__ __forceinline__ WaitingPack<T, V> result() const {
    WaitingPack<T, V> part;
#pragma unroll
    for (int w = 0; w < of_each; ++w) part.words[w] = high_halves(words[2 * w], words[2 * w + 1]);
    return part;
  }

 private:
  // Words of one element are not cut: the first is the "low" one.
  static __device__ __forceinline__ unsigned low_halves(unsigned first, unsigned second) {
    return sizeof(T) == 4 ? first : __byte_perm(first, second, 0x5410);
  }
  static __device__ __forceinline__ unsigned high_halves(unsigned first, unsigned second) {
    return sizeof(T) == 4 ? second : __byte_perm(first, second, 0x7632);
  }
};

template <typename T>
struct JoinedPack<T, 1> {
  T values[2];

  static __device__ __forceinline__ JoinedPack load(const T* from) { return {{from[0], from[1]}}; }
  __device__ __forceinline__ void store(T* to) const {
    to[0] = values[0];
    to[1] = values[1];
  }
  static __device__ __forceinline__ JoinedPack of(const WaitingPack<T, 1>& other,
                                                  const WaitingPack<T, 1>& result) {
    return {{other.value, result.value}};
  }
  __device__ __forceinline__ WaitingPack<T, 1> other() const { return {values[0]}; }
  __device__ __forceinline__ WaitingPack<T, 1> result() const { return {values[1]}; }
};

/// Where the other tensor's elements lie that belong to a thread's pack of a row of RowTiles. A
/// pack may reach into the next row of the tensor, a word of it does not.
template <typename T, int V>
class OtherPlaces {
 public:
  /// `begin`: of the pack, in the row.
  __device__ __forceinline__ OtherPlaces(const RowTiles& tiles, int begin, int times)
      : channels_(tiles.channels), times_(times) {
#pragma unroll
    for (int w = 0; w < words; ++w) {
      const int at = begin + w * in_word;
      places_[w] = at + at / channels_ * (times - 1) * channels_;
    }
  }

  /// `row`: the offset of the result's row, as for_rows() tells it.
  __device__ __forceinline__ WaitingPack<T, V> load(const T* other, std::int64_t row) const {
    const T* from = other + times_ * row;
    WaitingPack<T, V> pack;
    if constexpr (V == 1) {
      pack.value = from[places_[0]];
    } else {
#pragma unroll
      for (int w = 0; w < words; ++w) {
        pack.words[w] = *reinterpret_cast<const unsigned*>(from + places_[w]);
      }
    }
    return pack;
  }

  /// And zeros to the channels that were left out.
  __device__ __forceinline__ void store(const WaitingPack<T, V>& pack, T* other,
                                        std::int64_t row) const {
    T* to = other + times_ * row;
#pragma unroll
    for (int w = 0; w < words; ++w) {
      if constexpr (V == 1) {
        to[places_[0]] = pack.value;
      } else {
        *reinterpret_cast<unsigned*>(to + places_[w]) = pack.words[w];
      }
    }
    for (int part = 1; part < times_; ++part) {
      to += channels_;
#pragma unroll
      for (int w = 0; w < words; ++w) {
        if constexpr (V == 1) {
          to[places_[0]] = from_float<T>(0.0F);
        } else {
          *reinterpret_cast<unsigned*>(to + places_[w]) = 0;
        }
      }
    }
  }

 private:
  static constexpr int in_word = V == 1 ? 1 : Lanes<T>::count;
  static constexpr int words = V / in_word;
  int channels_;
  int times_;
  int places_[words];
};

/// The other tensor's place of the result's element `at`, both in one group.
__device__ __forceinline__ std::int64_t other_place(const RowTiles& tiles, std::int64_t at,
                                                    int times) {
  return at + at / tiles.channels * (times - 1) * tiles.channels;
}

/// The same for a pack of ResidentTiles, which lies in one row of the other tensor: `offset` is the
/// result's.
template <int V>
__device__ __forceinline__ int other_offset(const ResidentPlace& place, int offset, int times) {
  return times * offset - (times - 1) * place.pack * V;
}

/// How many times the channels of x, which is normalised, the other tensor has; one where there is
/// none.
inline int times_the_channels(const Tensor& other, const Tensor& x) {
  return other.defined() ? static_cast<int>(other.elements() / x.elements()) : 1;
}

/// with_packs() for kernels that join: of half the size, so that they are whole in the joined
/// tensor. A row of the other tensor begins at a word.
template <typename Use>
void with_joined_packs(const BatchNormShape& shape, DType dtype, bool aligned, Use&& use) {
  with_element_type(dtype, [&](auto element) {
    constexpr int packed = full_pack<decltype(element)> / 2;
    const bool words = shape.channels * static_cast<std::int64_t>(sizeof(element)) % 4 == 0;
    if (aligned && words && (shape.groups == 1 || shape.elements() % packed == 0)) {
      use(element, std::integral_constant<int, packed>());
    } else {
      use(element, std::integral_constant<int, 1>());
    }
  });
}

/// with_activation() for kernels that join.
template <typename Use>
void with_joined_activation(Activation activation, Use&& use) {
  with_activation(activation, [&](auto chosen) {
    if constexpr (fuses_with_join(decltype(chosen)::value)) {
      use(chosen);
    } else {
      throw Error(fmt::format("a join behind {}", name_of(activation)));
    }
  });
}

}  // namespace tandem
