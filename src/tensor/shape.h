#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tandem {

/// Extents of a tensor, outermost first, at most six of them, each >= 0. Images are NHWC,
/// convolution weights KRSC (out channels, rows, columns, in channels per group). A Shape of no
/// extents is a scalar of one element.
class Shape {
 public:
  static constexpr std::size_t max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  std::size_t rank() const { return rank_; }
  /// Throws Error where `axis` >= rank().
  std::int64_t operator[](std::size_t axis) const;
  /// Product of the extents. Throws Error where it overflows.
  std::int64_t elements() const;
  std::span<const std::int64_t> extents() const { return {extents_.data(), rank_}; }
  /// "32x8x8x64"; "scalar" where there are no extents.
  std::string text() const;

  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

}  // namespace tandem
