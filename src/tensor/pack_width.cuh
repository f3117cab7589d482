#pragma once

// How wide the accesses of a kernel may be.

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "tensor/cuda_elements.cuh"
#include "tensor/tensor.h"

namespace tandem {

/// The most elements that one access of at most 16 bytes may take: a power of two that divides all
/// `extents` (the lengths and places of runs of elements) and suits the tensors' addresses.
/// Undefined tensors do not count; all have the dtype of the first.
inline int widest_pack(std::initializer_list<std::int64_t> extents,
                       std::initializer_list<const Tensor*> tensors) {
  const auto element = static_cast<std::int64_t>(size_of((*tensors.begin())->dtype()));
  const auto fits = [&](std::int64_t width) {
    for (const std::int64_t extent : extents) {
      if (extent % width != 0) return false;
    }
    for (const Tensor* tensor : tensors) {
      const auto place = reinterpret_cast<std::uintptr_t>(tensor->raw());
      if (place % static_cast<std::uintptr_t>(width * element) != 0) return false;
    }
    return true;
  };
  std::int64_t width = 16 / element;
  while (width > 1 && !fits(width)) width /= 2;
  return static_cast<int>(width);
}

/// Calls `use(std::integral_constant<int, P>())` for P = width, a result of widest_pack() for
/// elements of T.
template <typename T, typename Use>
void with_pack_width(int width, Use&& use) {
  if constexpr (full_pack<T> >= 8) {
    if (width == 8) return use(std::integral_constant<int, 8>());
  }
  if (width == 4) return use(std::integral_constant<int, 4>());
  if (width == 2) return use(std::integral_constant<int, 2>());
  return use(std::integral_constant<int, 1>());
}

/// How many packs a thread should load before it uses the first, so that narrow ones too keep the
/// memory busy.
template <typename T, int P>
constexpr int packs_in_flight = sizeof(T) * P >= 16 ? 2 : 4;

/// As a 32-bit count of items, which kernels can divide by FastDivisor.
inline std::uint32_t small_count(std::int64_t count) {
  TANDEM_CHECK(count >= 0 && count < std::int64_t{1} << 31, "{} items in one kernel", count);
  return static_cast<std::uint32_t>(count);
}

}  // namespace tandem
