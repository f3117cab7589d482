#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "device/arena.h"
#include "device/memory.h"

namespace tandem {

/// A copy of a table in a context's memory, for kernels to read or write. The context must outlive
/// it.
template <typename Row>
class ContextTable {
  static_assert(std::is_trivially_copyable_v<Row>);

 public:
  /// Throws InputError naming `purpose` where the memory cannot be had.
  ContextTable(AnyContext& context, std::span<const Row> rows, const char* purpose)
      : arena_(context, rows.size_bytes(), purpose), count_(rows.size()) {
    copy_to_device(context, rows.data(), rows.size_bytes(), arena_.data());
  }
  /// `count` rows of zero bits.
  ContextTable(AnyContext& context, std::size_t count, const char* purpose)
      : arena_(context, count * sizeof(Row), purpose), count_(count) {}

  /// Valid where the context's memory is; the host reads it only where is_host().
  std::span<Row> rows() const { return {reinterpret_cast<Row*>(arena_.data()), count_}; }

 private:
  Arena arena_;
  std::size_t count_;
};

}  // namespace tandem
