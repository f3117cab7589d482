#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tandem {

/// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection on 64 bits that mixes well.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// FNV-1a over bytes: the same value on every machine. For names and plans, not for secrets.
constexpr std::uint64_t hash_text(std::string_view text,
                                  std::uint64_t seed = 0xcbf29ce484222325ULL) {
  std::uint64_t hash = seed;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

/// Hash of a large buffer, eight bytes at a time (XXH64's round); little-endian machines agree on
/// it. Any changed bit changes it.
inline std::uint64_t hash_bytes(const void* data, std::size_t bytes) {
  constexpr std::uint64_t prime1 = 0x9e3779b185ebca87ULL;
  constexpr std::uint64_t prime2 = 0xc2b2ae3d27d4eb4fULL;
  constexpr std::uint64_t prime3 = 0x85ebca77c2b2ae63ULL;
  const auto* cursor = static_cast<const unsigned char*>(data);
  std::uint64_t hash = mix64(bytes + prime3);
  while (bytes > 0) {
    const std::size_t taken = bytes < 8 ? bytes : 8;
    std::uint64_t word = 0;
    std::memcpy(&word, cursor, taken);
    // The word is spread before it meets the hash: else a flipped top bit here and one flipped bit
    // in the next word would cancel. Each line is a bijection, so no single change is absorbed.
    word = std::rotl(word * prime2, 31) * prime1;
    hash = std::rotl(hash ^ word, 27) * prime1 + prime3;
    cursor += taken;
    bytes -= taken;
  }
  return mix64(hash);
}

}  // namespace tandem
