#pragma once

#include <bit>
#include <cstdint>

#include "base/error.h"

namespace tandem {

/// Division of numbers below 2^31 by one divisor of that range, found at run time, as a product
/// and a shift (Granlund and Montgomery 1994): for index arithmetic of device kernels, which have
/// no instruction for it.
class FastDivisor {
 public:
  explicit FastDivisor(std::int64_t divisor) {
    TANDEM_CHECK(divisor >= 1 && divisor < std::int64_t{1} << 31, "a divisor of {}", divisor);
    divisor_ = static_cast<std::uint32_t>(divisor);
    shift_ = static_cast<std::uint32_t>(std::bit_width(divisor_ - 1));
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - divisor_;
    factor_ = static_cast<std::uint32_t>((excess << 32) / divisor_ + 1);
  }

  constexpr std::uint32_t divisor() const { return divisor_; }
  constexpr std::uint32_t quotient(std::uint32_t number) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{factor_} * number) >> 32);
    return (high + number) >> shift_;
  }
  /// Replaces `number` by its quotient and returns the remainder.
  constexpr std::uint32_t split(std::uint32_t& number) const {
    const std::uint32_t whole = quotient(number);
    const std::uint32_t rest = number - whole * divisor_;
    number = whole;
    return rest;
  }

 private:
  std::uint32_t divisor_;
  std::uint32_t shift_;
  std::uint32_t factor_;
};

}  // namespace tandem
