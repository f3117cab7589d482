#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <set>

#include "base/philox.h"
#include "layers/plans/pixel_fold.h"
#include "layers/plans/toeplitz_filter.h"
#include "layers/reference.h"

// The index maps of rewritten convolutions: what they make of a convolution must be that
// convolution, to the bit, on whole numbers.

namespace tandem {
namespace {

struct Convolution {
  Shape input;
  Window window;
};

void PrintTo(const Convolution& row, std::ostream* out) {
  *out << row.input.text() << " k" << row.window.kernel << " s" << row.window.stride << " p"
       << row.window.padding;
}

constexpr std::int64_t filters = 5;

ConvolutionProblem problem_of(const Convolution& row) {
  return {.window = row.window,
          .batch = row.input[0],
          .rows = row.input[1],
          .columns = row.input[2],
          .channels = row.input[3],
          .out_rows = row.window.output_extent(row.input[1]),
          .out_columns = row.window.output_extent(row.input[2]),
          .out_channels = filters};
}

DoubleTensor whole_numbers(const Shape& shape, std::string_view name) {
  RandomStream random(3, name);
  DoubleTensor tensor(shape);
  for (double& value : tensor.data) {
    value = std::round(8.0 * static_cast<double>(random.normal()));
  }
  return tensor;
}

DoubleTensor convolve(const DoubleTensor& x, const DoubleTensor& weight, const Window& window) {
  const std::string keys = fmt::format("out={}\nkernel={}\nstride={}\npadding={}", weight.shape[0],
                                       window.kernel, window.stride, window.padding);
  return reference_conv2d(x, weight, nullptr, ConfigTable::from_text(keys, "a test"));
}

class ConvolutionRewriteTest : public testing::TestWithParam<Convolution> {
 protected:
  ConvolutionProblem problem_ = problem_of(GetParam());
  Window window_ = GetParam().window;
  DoubleTensor x_ = whole_numbers(GetParam().input, "x");
  DoubleTensor weight_ =
      whole_numbers({filters, window_.kernel, window_.kernel, problem_.channels}, "weight");
  DoubleTensor y_ = convolve(x_, weight_, window_);
};

class PixelFoldTest : public ConvolutionRewriteTest {};

/// element(image or filter, row, column, channel) for each element of a tensor.
DoubleTensor gathered(const Shape& shape, const DoubleTensor& from, const auto& source) {
  DoubleTensor made(shape);
  const auto stride = from.data.size() / static_cast<std::size_t>(from.shape[0]);
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t i = 0; i < shape[1]; ++i) {
      for (std::int64_t j = 0; j < shape[2]; ++j) {
        for (std::int64_t c = 0; c < shape[3]; ++c) {
          const PixelFold::Source at =
              source(static_cast<std::int32_t>(i), static_cast<std::int32_t>(j),
                     static_cast<std::int32_t>(c));
          if (!at.exists) continue;
          made.at(n, i, j, c) = from.data.at(static_cast<std::size_t>(n) * stride +
                                             static_cast<std::size_t>(at.element));
        }
      }
    }
  }
  return made;
}

TEST_P(PixelFoldTest, IsTheSameConvolution) {
  for (const std::int64_t block : {window_.stride, window_.kernel}) {
    if (block > window_.kernel) continue;
    for (const std::int64_t word : {4, 8}) {
      const PixelFold fold = PixelFold::of(problem_, block, word);
      SCOPED_TRACE(fmt::format("block {} word {}", block, word));
      EXPECT_EQ(fold.folded_channels % word, 0);
      const DoubleTensor x =
          gathered({problem_.batch, fold.folded_rows, fold.folded_columns, fold.folded_channels},
                   x_, [&](auto i, auto j, auto c) { return fold.pixel_source(i, j, c); });
      const DoubleTensor weight =
          gathered({filters, fold.folded_kernel, fold.folded_kernel, fold.folded_channels}, weight_,
                   [&](auto i, auto j, auto c) { return fold.tap_source(i, j, c); });
      const DoubleTensor y = convolve(x, weight, {.kernel = fold.folded_kernel});
      EXPECT_EQ(y.shape, y_.shape);
      EXPECT_EQ(y.data, y_.data);
    }
  }
}

TEST_P(PixelFoldTest, HasOnePlaceForEveryTap) {
  for (const std::int64_t block : {window_.stride, window_.kernel}) {
    if (block > window_.kernel) continue;
    const PixelFold fold = PixelFold::of(problem_, block, 8);
    std::set<std::int32_t> places;
    std::int32_t element = 0;
    for (std::int32_t r = 0; r < fold.kernel; ++r) {
      for (std::int32_t s = 0; s < fold.kernel; ++s) {
        for (std::int32_t c = 0; c < fold.channels; ++c, ++element) {
          const std::int32_t place = fold.folded_tap(r, s, c);
          const std::int32_t tap = place / fold.folded_channels;
          const PixelFold::Source source = fold.tap_source(
              tap / fold.folded_kernel, tap % fold.folded_kernel, place % fold.folded_channels);
          EXPECT_TRUE(source.exists);
          EXPECT_EQ(source.element, element);
          places.insert(place);
        }
      }
    }
    EXPECT_EQ(places.size(), static_cast<std::size_t>(element));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stems, PixelFoldTest,
    testing::Values(Convolution{{2, 17, 14, 3}, {.kernel = 7, .stride = 2, .padding = 3}},
                    Convolution{{1, 16, 15, 3}, {.kernel = 7, .stride = 2, .padding = 3}},
                    Convolution{{2, 9, 12, 3}, {.kernel = 3, .stride = 2, .padding = 1}},
                    Convolution{{2, 6, 5, 3}, {.kernel = 3, .padding = 1}},
                    Convolution{{1, 11, 10, 1}, {.kernel = 5, .stride = 3, .padding = 2}},
                    Convolution{{1, 13, 12, 2}, {.kernel = 11, .stride = 4, .padding = 2}},
                    Convolution{{1, 8, 12, 4}, {.kernel = 4, .stride = 4}},
                    Convolution{{1, 7, 9, 3}, {.kernel = 2, .stride = 3}},
                    Convolution{{1, 4, 5, 3}, {.kernel = 2, .padding = 3}},
                    Convolution{{1, 9, 6, 4}, {.kernel = 4, .stride = 2, .padding = 1}}));

class ToeplitzFilterTest : public ConvolutionRewriteTest {};

TEST_P(ToeplitzFilterTest, MatrixProductIsTheConvolution) {
  const ToeplitzFilter filter = ToeplitzFilter::of(problem_);
  const std::int64_t taps = std::int64_t{filter.kernel} * filter.kernel;
  std::vector<double> y(y_.data.size(), 0.0);
  std::size_t at = 0;
  for (std::int64_t n = 0; n < problem_.batch; ++n) {
    for (std::int32_t out_pixel = 0; out_pixel < filter.out_pixels(); ++out_pixel) {
      for (std::int64_t k = 0; k < filters; ++k, ++at) {
        for (std::int32_t pixel = 0; pixel < filter.pixels(); ++pixel) {
          const std::int32_t tap = filter.tap(out_pixel, pixel);
          if (tap < 0) continue;
          for (std::int64_t c = 0; c < problem_.channels; ++c) {
            const auto weight = static_cast<std::size_t>((k * taps + tap) * problem_.channels + c);
            const auto from =
                static_cast<std::size_t>((n * filter.pixels() + pixel) * problem_.channels + c);
            y[at] += weight_.data[weight] * x_.data[from];
          }
        }
      }
    }
  }
  EXPECT_EQ(y, y_.data);
}

TEST_P(ToeplitzFilterTest, PixelsAndTapsAreInverses) {
  const ToeplitzFilter filter = ToeplitzFilter::of(problem_);
  for (std::int32_t out_pixel = 0; out_pixel < filter.out_pixels(); ++out_pixel) {
    int through_pixels = 0;
    int through_taps = 0;
    for (std::int32_t pixel = 0; pixel < filter.pixels(); ++pixel) {
      const std::int32_t tap = filter.tap(out_pixel, pixel);
      if (tap < 0) continue;
      EXPECT_EQ(filter.pixel(out_pixel, tap), pixel);
      ++through_pixels;
    }
    for (std::int32_t tap = 0; tap < filter.kernel * filter.kernel; ++tap) {
      through_taps += filter.pixel(out_pixel, tap) < 0 ? 0 : 1;
    }
    EXPECT_EQ(through_pixels, through_taps);
  }
}

INSTANTIATE_TEST_SUITE_P(
    SmallImages, ToeplitzFilterTest,
    testing::Values(Convolution{{3, 2, 2, 4}, {.kernel = 3, .padding = 1}},
                    Convolution{{2, 2, 2, 4}, {.kernel = 3, .stride = 2, .padding = 1}},
                    Convolution{{2, 4, 4, 3}, {.kernel = 3, .stride = 2, .padding = 1}},
                    Convolution{{2, 2, 3, 2}, {.kernel = 3, .padding = 1}},
                    Convolution{{1, 3, 1, 2}, {.kernel = 5, .padding = 2}},
                    Convolution{{2, 4, 3, 2}, {.kernel = 3}},
                    Convolution{{1, 1, 1, 3}, {.kernel = 2, .padding = 1}}));

}  // namespace
}  // namespace tandem
