#include "parallel/colocated/combine.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

using Sources = std::span<const std::byte* const>;

template <typename T, typename Both>
void combine_with(const Both& both, Sources sources, std::byte* bytes, std::int64_t first,
                  std::int64_t last) {
  // Stay in the first cache while all sources are added to them.
  constexpr std::int64_t block = 2048;
  auto* result = reinterpret_cast<T*>(bytes);
  for (std::int64_t at = first; at < last; at += block) {
    const std::int64_t end = std::min(last, at + block);
    std::memcpy(result + at, reinterpret_cast<const T*>(sources[0]) + at,
                static_cast<std::size_t>(end - at) * sizeof(T));
    for (const std::byte* source : sources.subspan(1)) {
      const auto* theirs = reinterpret_cast<const T*>(source);
#pragma omp simd
      for (std::int64_t i = at; i < end; ++i) result[i] = both(result[i], theirs[i]);
    }
  }
}

template <typename T>
void combine_as(ReduceOp op, Sources sources, std::byte* result, std::int64_t first,
                std::int64_t last) {
  const auto with = [&](const auto& both) { combine_with<T>(both, sources, result, first, last); };
  switch (op) {
    case ReduceOp::sum:
      return with([](T a, T b) { return static_cast<T>(a + b); });
    case ReduceOp::max:
      return with([](T a, T b) { return a < b ? b : a; });
    case ReduceOp::min:
      return with([](T a, T b) { return b < a ? b : a; });
  }
}

}  // namespace

void combine(DType dtype, ReduceOp op, Sources sources, std::byte* result, std::int64_t first,
             std::int64_t last) {
  switch (dtype) {
    case DType::f32:
      return combine_as<float>(op, sources, result, first, last);
    case DType::i32:
      return combine_as<std::int32_t>(op, sources, result, first, last);
    case DType::i64:
      return combine_as<std::int64_t>(op, sources, result, first, last);
    case DType::u8:
      return combine_as<std::uint8_t>(op, sources, result, first, last);
    default:
      throw Error(fmt::format("{} elements are not combined on a host", name_of(dtype)));
  }
}

}  // namespace tandem
