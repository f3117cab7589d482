#include "tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tandem {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  TANDEM_CHECK(rank_ <= max_rank, "a shape has at most {} extents, not {}", max_rank, rank_);
  std::copy(extents.begin(), extents.end(), extents_.begin());
  for (const std::int64_t extent : extents) {
    TANDEM_CHECK(extent >= 0, "a shape's extents are not negative: {}", text());
  }
}

std::int64_t Shape::operator[](std::size_t axis) const {
  TANDEM_CHECK(axis < rank_, "axis {} of a shape of rank {}", axis, rank_);
  return extents_[axis];
}

std::int64_t Shape::elements() const {
  if (std::ranges::find(extents(), 0) != extents().end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents()) {
    TANDEM_CHECK(!__builtin_mul_overflow(product, extent, &product),
                 "a tensor of {} has more elements than 64 bits count", text());
  }
  return product;
}

std::string Shape::text() const {
  return rank_ == 0 ? "scalar" : fmt::format("{}", fmt::join(extents(), "x"));
}

}  // namespace tandem
