#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/gather_text.h"
#include "support/message.h"

// For tests that run whole on every rank of an mpirun. A case must make the same collective calls
// on all ranks whatever its expectations say: so it uses EXPECT_, and an ASSERT_ that fails, an
// exception that escapes or a case that takes too long ends the whole job with an error code.

namespace tandem {

/// The communicator of all ranks.
Communicator& world();
/// Another of the same kind and ranks that splits nearly every message; null where the kind splits
/// none.
Communicator* splitting_world();
/// The ranks of each device, whose elements are added up before anything is rounded to bf16.
std::vector<std::vector<int>> devices_of_ranks();

/// A message without the rank that Error appends, the part that ranks must agree upon.
inline std::string without_rank(const std::string& message) {
  return message.substr(0, message.rfind("rank"));
}

/// Expects `text` to be the same on all ranks.
inline void expect_same_everywhere(std::string_view text) {
  for (const std::string& other : all_gather_text(world(), text)) EXPECT_EQ(other, text);
}

/// View of a vector.
template <typename T>
Tensor view(std::vector<T>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}, DTypeOf<T>::value};
}

/// Something that lives to the end of the program, and beyond MPI's. MPI cannot take back an
/// operation that timed out: it still writes to its tensors, and needs its communicator, whenever
/// the silent rank comes along.
template <typename T, typename... Arguments>
T& outliving_operations(Arguments&&... arguments) {
  static auto& all = *new std::vector<T*>;  // keeps them reachable for leak checkers
  return *all.emplace_back(new T(std::forward<Arguments>(arguments)...));
}

/// Element i that `rank` contributes: small whole numbers, so that sums are exact in every type and
/// do not depend on their order.
template <typename T>
T contribution(int rank, std::size_t i) {
  return static_cast<T>((i * 7 + static_cast<std::size_t>(rank) * 13 + 5) % 23);
}

template <typename T>
std::vector<T> contributions(int rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = contribution<T>(rank, i);
  return values;
}

}  // namespace tandem
