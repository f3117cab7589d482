#include "data/augment/resample.h"

#include <algorithm>

#include "base/error.h"
#include "data/augment/resample_filter.h"

namespace tandem {
namespace {

void check(const ImageView& source, const ResizeRequest& request) {
  const PixelRect& part = request.part;
  const RealRect& box = request.box;
  TANDEM_CHECK(part.height > 0 && part.width > 0 && part.top >= 0 && part.left >= 0 &&
                   part.top + part.height <= request.height &&
                   part.left + part.width <= request.width,
               "cannot cut {}x{} at {},{} from an image of {}x{}", part.height, part.width,
               part.top, part.left, request.height, request.width);
  TANDEM_CHECK(box.height > 0.0 && box.width > 0.0 && box.top >= 0.0 && box.left >= 0.0 &&
                   box.top + box.height <= source.height && box.left + box.width <= source.width,
               "cannot resize {}x{} at {},{} of an image of {}x{}", box.height, box.width, box.top,
               box.left, source.height, source.width);
  TANDEM_CHECK(source.channels == 1 || source.channels == 3, "cannot resize {} channels",
               source.channels);
}

/// Gives the rows of the result one after the other; the source must live as long.
class Resampler {
 public:
  Resampler(const ImageView& source, const ResizeRequest& request, const ResizePasses& passes);
  void next_row(std::uint8_t* out);

 private:
  std::int32_t* filtered_row(int y) {
    return rows_.data() + row_stride_ * static_cast<std::size_t>(y % rows_kept_);
  }

  ImageView source_;
  const ResizePasses& passes_;
  TriangleFilter<std::int32_t> down_;
  RowFilter across_;
  std::size_t row_values_;  ///< of the result
  std::size_t row_stride_;
  int rows_kept_;
  int filtered_;  ///< source rows below this one have been filtered along x
  std::size_t next_ = 0;
  std::vector<std::int32_t> rows_;  ///< the last rows_kept_ of them: row y lies at y % rows_kept_
  std::vector<const std::int32_t*> taps_;
};

Resampler::Resampler(const ImageView& source, const ResizeRequest& request,
                     const ResizePasses& passes)
    : source_(source),
      passes_(passes),
      down_(source.height, request.box.top, request.box.height, request.height, request.part.top,
            request.part.height),
      across_(TriangleFilter<std::int32_t>(source.width, request.box.left, request.box.width,
                                           request.width, request.part.left, request.part.width),
              source.width, source.channels, passes),
      row_values_(static_cast<std::size_t>(request.part.width) *
                  static_cast<std::size_t>(source.channels)),
      row_stride_(row_values_ + RowFilter::output_slack),
      rows_kept_(down_.taps + 1),  // one more: rows are filtered in pairs
      filtered_(down_.first.front()),
      rows_(row_stride_ * static_cast<std::size_t>(rows_kept_)),
      taps_(static_cast<std::size_t>(down_.taps)) {}

void Resampler::next_row(std::uint8_t* out) {
  const int first = down_.first.at(next_);
  for (; filtered_ < first + down_.taps; filtered_ += 2) {
    // Behind the last row it is filtered once more, into the place of a row that is done with.
    const int partner = std::min(filtered_ + 1, source_.height - 1);
    across_.apply(source_.row(filtered_), source_.row(partner), filtered_row(filtered_),
                  filtered_row(filtered_ + 1));
  }
  for (int t = 0; t < down_.taps; ++t) taps_[static_cast<std::size_t>(t)] = filtered_row(first + t);
  const std::int32_t* weights = down_.weights.data() + next_ * static_cast<std::size_t>(down_.taps);
  passes_.filter_columns(taps_.data(), weights, down_.taps, row_values_, out);
  ++next_;
}

}  // namespace

Image resize(const ImageView& source, const ResizeRequest& request, const ResizePasses& passes) {
  check(source, request);
  Resampler resampler(source, request, passes);
  const std::size_t row_bytes =
      static_cast<std::size_t>(request.part.width) * static_cast<std::size_t>(source.channels);
  Image result{
      request.part.height, request.part.width, source.channels,
      std::vector<std::uint8_t>(static_cast<std::size_t>(request.part.height) * row_bytes)};
  for (std::size_t y = 0; y < static_cast<std::size_t>(request.part.height); ++y) {
    resampler.next_row(result.pixels.data() + y * row_bytes);
  }
  return result;
}

}  // namespace tandem
