#include "parallel/replica_check.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/hash.h"
#include "parallel/gather_text.h"

namespace tandem {
namespace {

std::string text_of(const PlanEntry& entry) {
  const std::string bucket =
      entry.bucket < 0 ? "in no bucket" : fmt::format("in bucket {}", entry.bucket);
  return fmt::format("'{}' {} {} {}", entry.name, entry.shape.text(), name_of(entry.dtype), bucket);
}

bool all_equal(std::span<const std::int64_t> values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

/// `table` holds one row of `columns` values for each rank. The first column in which the rows
/// differ; `columns` where none does.
std::size_t first_difference(std::span<const std::int64_t> table, std::size_t columns) {
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t i = column; i < table.size(); i += columns) {
      if (table[i] != table[column]) return column;
    }
  }
  return columns;
}

std::int64_t hash_value(const void* data, std::size_t bytes) {
  // No bytes may mean no address, which the hash's copies must not be given.
  return std::bit_cast<std::int64_t>(bytes == 0 ? std::uint64_t{0} : hash_bytes(data, bytes));
}

}  // namespace

void check_same_plan(Communicator& communicator, std::span<const PlanEntry> entries) {
  std::vector<std::int64_t> hashes;
  for (const PlanEntry& entry : entries) {
    const std::string text = text_of(entry);
    hashes.push_back(hash_value(text.data(), text.size()));
  }
  const std::int64_t whole = hash_value(hashes.data(), hashes.size() * sizeof(std::int64_t));
  if (all_equal(all_gather_values(communicator, {&whole, 1}))) return;

  // They differ, and every rank knows it: so all of them can go on to find out where.
  const auto count = static_cast<std::int64_t>(hashes.size());
  const std::vector<std::int64_t> counts = all_gather_values(communicator, {&count, 1});
  const auto longest = static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end()));
  hashes.resize(longest, 0);
  const std::size_t where = first_difference(all_gather_values(communicator, hashes), longest);
  const std::string mine =
      where < entries.size() ? text_of(entries[where]) : std::string("nothing");
  throw Error(
      fmt::format("the ranks' plans differ at entry {}: {}; start every rank with the same "
                  "program, model and settings",
                  where, who_has_what(all_gather_text(communicator, mine))));
}

void check_replicas(Communicator& communicator, const SliceHashes& hashes,
                    std::span<const ParameterSlice> slices) {
  const std::int64_t whole = hashes.whole;
  std::vector<std::int64_t> table = all_gather_values(communicator, {&whole, 1});
  if (all_equal(table)) return;

  std::size_t columns = 1;
  std::size_t where = 0;
  const std::vector<std::int64_t> by_slice = all_gather_values(communicator, hashes.slices);
  const std::size_t first = first_difference(by_slice, hashes.slices.size());
  const bool inside = first < hashes.slices.size();
  if (inside) {
    table = by_slice;
    columns = hashes.slices.size();
    where = first;
  }
  std::vector<int> different;
  for (std::size_t i = where; i < table.size(); i += columns) {
    if (table[i] != table[where]) different.push_back(static_cast<int>(i / columns));
  }
  throw Error(fmt::format("the replicas are no longer equal: {} on {} differs from rank 0's",
                          inside ? fmt::format("'{}'", slices[where].name)
                                 : std::string("the padding between parameters"),
                          ranks_text(different)));
}

void broadcast_state(Communicator& communicator, std::span<const Tensor> tensors, int root) {
  for (const Tensor& tensor : tensors) communicator.broadcast(tensor, root);
}

}  // namespace tandem
