#include "data/augment/resample_short.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "data/augment/resample_filter.h"

namespace tandem {
namespace {

/// A plan with what it points to.
class PlannedResize {
 public:
  PlannedResize(const ImageView& source, const FloatResize& wanted)
      : down_(source.height, wanted.box.top, wanted.box.height, wanted.height, 0, wanted.height),
        across_(source.width, wanted.box.left, wanted.box.width, wanted.width, 0, wanted.width),
        turned_(std::make_unique_for_overwrite<Short16[]>(std::size_t{3} *
                                                          static_cast<std::size_t>(source.width))) {
    if (wanted.mirrored) across_.mirror();
    down_weights_ = in_pairs(down_.weights);
    across_weights_ = in_pairs(across_.weights);
    plan_ = {.source = source,
             .height = wanted.height,
             .width = wanted.width,
             .down_taps = down_.taps,
             .across_taps = across_.taps,
             .down_first = down_.first.data(),
             .down_weights = down_weights_.data(),
             .across_first = across_.first.data(),
             .across_weights = across_weights_.data(),
             .turned = turned_.get(),
             .lost = (down_.taps + across_.taps) / 2};
    const auto [fewest, most] = std::minmax(down_.taps, across_.taps);
    TANDEM_CHECK(fewest >= 1 && most <= ShortSizes::most_taps, "filters of {} and {} taps",
                 down_.taps, across_.taps);
  }

  const ShortResizePlan& operator*() const { return plan_; }

 private:
  static std::vector<std::uint32_t> in_pairs(const std::vector<std::uint16_t>& weights) {
    std::vector<std::uint32_t> pairs(weights.size());
    std::transform(weights.begin(), weights.end(), pairs.begin(),
                   [](std::uint16_t weight) { return weight * 0x10001U; });
    return pairs;
  }

  TriangleFilter<std::uint16_t> down_;
  TriangleFilter<std::uint16_t> across_;
  std::vector<std::uint32_t> down_weights_;
  std::vector<std::uint32_t> across_weights_;
  std::unique_ptr<Short16[]> turned_;
  ShortResizePlan plan_;
};

}  // namespace

bool fits_shorts(const ImageView& source, const FloatResize& wanted) {
  // The triangle is seven inputs wide then, so that it touches eight.
  constexpr double most_reduced = 3.5;
  static_assert(2 * most_reduced + 1 <= ShortSizes::most_taps);
  return source.channels == 3 && 3 * source.width >= ShortSizes::group &&
         wanted.height >= ShortSizes::strip && wanted.width >= ShortSizes::pixels &&
         wanted.box.height <= most_reduced * wanted.height &&
         wanted.box.width <= most_reduced * wanted.width;
}

void resize_shorts(const ImageView& source, const FloatResize& wanted, float* out,
                   const ResizePasses& passes) {
  TANDEM_CHECK(fits_shorts(source, wanted), "cannot resize to {}x{}", wanted.height, wanted.width);
  const PlannedResize plan(source, wanted);
  passes.shorts_to_floats(*plan, wanted.scale.data(), wanted.offset.data(), out);
}

void resize_shorts(const ImageView& source, const FloatResize& wanted, std::uint8_t* out,
                   const ResizePasses& passes) {
  TANDEM_CHECK(fits_shorts(source, wanted), "cannot resize to {}x{}", wanted.height, wanted.width);
  const PlannedResize plan(source, wanted);
  passes.shorts_to_bytes(*plan, out);
}

}  // namespace tandem
