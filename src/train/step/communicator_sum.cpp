#include "train/step/communicator_sum.h"

#include <algorithm>

namespace tandem {

void CommunicatorSum::reserve(std::size_t count) {
  if (!communicator_.is_host()) return;
  const std::size_t needed = count * static_cast<std::size_t>(ranks());
  gathered_.resize(std::max(gathered_.size(), needed));
}

void CommunicatorSum::sum(std::span<double> values) {
  if (ranks() == 1) return;
  TANDEM_CHECK(communicator_.is_host(), "values in host memory summed over '{}'",
               communicator_.name());
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

void CommunicatorSum::sum_on_device(double* values, std::size_t count) {
  communicator_.sum_doubles(values, static_cast<std::int64_t>(count));
}

}  // namespace tandem
