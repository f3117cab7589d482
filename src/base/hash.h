#pragma once

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

/// Hash of a large buffer, eight bytes at a time; little-endian machines agree on it. Any changed
/// bit changes it. Used to compare replicas.
inline std::uint64_t hash_bytes(const void* data, std::size_t bytes) {
  const auto* cursor = static_cast<const unsigned char*>(data);
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ bytes;
  for (; bytes >= 8; bytes -= 8, cursor += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, cursor, 8);
    // Odd multiplier and rotation: a bijection of `hash` for each word, so no change is absorbed.
    hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
    hash = (hash << 29) | (hash >> 35);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, cursor, bytes);
  return mix64(hash ^ tail);
}

}  // namespace tandem
