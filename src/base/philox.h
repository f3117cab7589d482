#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "base/hash.h"

namespace tandem {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a
/// counter-based generator. The same (key, counter) gives the same four words on every machine, so
/// a value can be drawn from what it is for, not from when it is drawn.
class Philox {
 public:
  using Words = std::array<std::uint32_t, 4>;

  explicit constexpr Philox(std::uint64_t key) : key_(key) {}

  constexpr Words operator()(std::uint64_t counter_low, std::uint64_t counter_high = 0) const {
    Words c{low(counter_low), high(counter_low), low(counter_high), high(counter_high)};
    std::uint32_t k0 = low(key_);
    std::uint32_t k1 = high(key_);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
      c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static constexpr std::uint32_t high(std::uint64_t x) {
    return static_cast<std::uint32_t>(x >> 32);
  }
  std::uint64_t key_;
};

/// A stream of numbers named by a key and up to two ids, for instance (seed, epoch, sample). Two
/// streams with different names are independent; the order in which streams are read is free.
class RandomStream {
 public:
  explicit constexpr RandomStream(std::uint64_t key, std::uint64_t id = 0)
      : philox_(mix64(key)), id_(id) {}
  RandomStream(std::uint64_t seed, std::string_view name)
      : RandomStream(seed ^ mix64(hash_text(name))) {}

  std::uint32_t next_u32() {
    if (used_ == 4) {
      words_ = philox_(counter_++, id_);
      used_ = 0;
    }
    return words_[static_cast<std::size_t>(used_++)];
  }
  std::uint64_t next_u64() {
    const std::uint64_t first = next_u32();
    return first << 32 | next_u32();
  }
  /// Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next_u32() >> 8) * 0x1.0p-24F; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Uniform integer in [0, bound), bound >= 1, by the 64-bit product (bias below 2^-32 * bound).
  std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next_u64()) * bound) >> 64);
  }
  /// Standard normal by Box-Muller; two words a value, the second value is not kept, so that the
  /// n-th value depends on n alone.
  float normal() {
    // In f32: models of millions of parameters are drawn at every start.
    const float u = (static_cast<float>(next_u32()) + 1.0F) * 0x1.0p-32F;
    const float v = static_cast<float>(next_u32()) * 0x1.0p-32F;
    return std::sqrt(-2.0F * std::log(u)) * std::cos(2.0F * std::numbers::pi_v<float> * v);
  }
  /// Goes on with the word of that index, counted from the stream's first.
  void seek(std::uint64_t word) {
    counter_ = word / 4;
    used_ = 4;
    for (std::uint64_t i = 0; i < word % 4; ++i) next_u32();
  }

 private:
  Philox philox_;
  std::uint64_t id_;
  std::uint64_t counter_ = 0;
  Philox::Words words_{};
  int used_ = 4;
};

}  // namespace tandem
