#include "layers/convolution/conv2d_cropped.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "layers/convolution/conv2d_onednn.h"

namespace tandem {
namespace {

/// Of images of so many rows and columns.
std::optional<WindowCrop> crop(const Window& window, std::int64_t rows, std::int64_t columns) {
  const Shape input{2, rows, columns, 8};
  return crop_window(window, input, windowed_shape(window, input, 16));
}

void expect_crop(const std::optional<WindowCrop>& crop, std::int64_t first, const Window& window) {
  ASSERT_TRUE(crop.has_value());
  EXPECT_EQ(crop->first, first);
  EXPECT_EQ(crop->window.kernel, window.kernel);
  EXPECT_EQ(crop->window.stride, window.stride);
  EXPECT_EQ(crop->window.padding, window.padding);
  EXPECT_EQ(crop->window.dilation, window.dilation);
}

TEST(CropWindow, KeepsTheCentreOverOnePixel) {
  expect_crop(crop({.kernel = 3, .padding = 1}, 1, 1), 1, {.kernel = 1});
  expect_crop(crop({.kernel = 7, .stride = 2, .padding = 3}, 1, 1), 3, {.kernel = 1, .stride = 2});
  expect_crop(crop({.kernel = 3, .padding = 2, .dilation = 2}, 1, 1), 1,
              {.kernel = 1, .dilation = 2});
}

TEST(CropWindow, KeepsWhatMeetsAFewPixels) {
  expect_crop(crop({.kernel = 3, .stride = 2, .padding = 1}, 2, 2), 1, {.kernel = 2, .stride = 2});
  expect_crop(crop({.kernel = 5, .padding = 2}, 2, 2), 1, {.kernel = 3, .padding = 1});
}

TEST(CropWindow, IsNoneWhereAllOfTheWindowIsNeeded) {
  EXPECT_FALSE(crop({.kernel = 3, .padding = 1}, 2, 2));
  EXPECT_FALSE(crop({.kernel = 3, .padding = 1}, 8, 8));
  EXPECT_FALSE(crop({.kernel = 1}, 1, 1));
  EXPECT_FALSE(crop({.kernel = 2, .padding = 3}, 4, 5));
  // By the columns alone.
  EXPECT_FALSE(crop({.kernel = 3, .padding = 1}, 1, 4));
}

/// Of a 3 x 3 window over single pixels, and the same without the crop.
class CroppedConvolutionTest : public testing::Test {
 protected:
  static constexpr std::int64_t batch = 3;
  static constexpr std::int64_t inputs = 5;  // so that runs of weights are nowhere aligned alike
  static constexpr std::int64_t outputs = 7;
  static constexpr std::int64_t weights = outputs * 9 * inputs;

  CroppedConvolutionTest() {
    const CpuConvolution::Mode mode{.training = true, .input_gradient = true};
    const Shape input{batch, 1, 1, inputs};
    const Shape output{batch, 1, 1, outputs};
    whole_ = std::make_unique<OneDnnConvolution>(context_, options_, input, output, mode);
    cropped_ = make_cpu_convolution(context_, options_, input, output, mode);
  }

  static std::vector<float> values(std::int64_t count, float seed) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = std::sin(seed + static_cast<float>(i));
    }
    return all;
  }

  static void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5F) << i;
  }

  std::byte* scratch(std::size_t bytes) {
    scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)));
    std::fill_n(scratch_.get(), bytes, std::byte{0xff});
    return scratch_.get();
  }

  CpuContext context_{2};
  Conv2dOptions options_{.out_channels = outputs, .window = {.kernel = 3, .padding = 1}};
  std::unique_ptr<CpuConvolution> whole_;
  std::unique_ptr<CpuConvolution> cropped_;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> scratch_;
};

TEST_F(CroppedConvolutionTest, IsWhatIsMadeForSinglePixels) {
  EXPECT_NE(dynamic_cast<CroppedConvolution*>(cropped_.get()), nullptr);
}

TEST_F(CroppedConvolutionTest, AgreesWithTheWholeWindow) {
  const std::vector<float> x = values(batch * inputs, 0.1F);
  const std::vector<float> w = values(weights, 0.2F);
  const std::vector<float> dy = values(batch * outputs, 0.3F);
  std::vector<float> y[2];
  std::vector<float> dx[2];
  std::vector<float> dw[2];
  CpuConvolution* convolutions[] = {whole_.get(), cropped_.get()};
  for (int i = 0; i < 2; ++i) {
    CpuConvolution& convolution = *convolutions[i];
    y[i].assign(batch * outputs, NAN);
    dx[i].assign(batch * inputs, NAN);
    // One more in front, so that the gradient stands at no multiple of 16 bytes where it may.
    const std::size_t shift = i;
    dw[i].assign(weights + shift, NAN);
    convolution.forward(x.data(), w.data(), nullptr, y[i].data(),
                        scratch(convolution.forward_scratch()));
    convolution.backward_data(dy.data(), w.data(), dx[i].data(),
                              scratch(convolution.backward_scratch()));
    convolution.backward_weights(x.data(), dy.data(), dw[i].data() + shift, nullptr,
                                 scratch(convolution.backward_scratch()));
    dw[i].erase(dw[i].begin(), dw[i].begin() + static_cast<std::ptrdiff_t>(shift));
  }
  expect_near(y[1], y[0]);
  expect_near(dx[1], dx[0]);
  expect_near(dw[1], dw[0]);
  EXPECT_EQ(std::ranges::count(dw[1], 0.0F), outputs * 8 * inputs);
}

}  // namespace
}  // namespace tandem
