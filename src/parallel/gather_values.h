#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "parallel/communicator.h"

namespace tandem {

/// Collective, over a host kind: every rank's value, by rank.
template <typename T>
std::vector<T> gather_values(Communicator& host, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  T own = mine;
  std::vector<T> all(static_cast<std::size_t>(host.size()));
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
  host.all_gather(Tensor(&own, {bytes}, DType::u8),
                  Tensor(all.data(), {bytes * host.size()}, DType::u8));
  return all;
}

}  // namespace tandem
