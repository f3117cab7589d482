#include "train/communicator_sum.h"

#include <algorithm>

namespace tandem {

void CommunicatorSum::reserve(std::size_t count) {
  const std::size_t needed = count * static_cast<std::size_t>(ranks());
  gathered_.resize(std::max(gathered_.size(), needed));
}

void CommunicatorSum::sum(std::span<double> values) {
  if (ranks() == 1) return;
  reserve(values.size());
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  communicator_.all_gather(Tensor(values.data(), {bytes}, DType::u8),
                           Tensor(gathered_.data(), {bytes * ranks()}, DType::u8));
  for (std::size_t i = 0; i < values.size(); ++i) {
    double total = 0.0;
    for (std::size_t at = i; at < values.size() * static_cast<std::size_t>(ranks());
         at += values.size()) {
      total += gathered_[at];
    }
    values[i] = total;
  }
}

}  // namespace tandem
