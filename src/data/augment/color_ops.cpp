#include "data/augment/color_ops.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "data/fused.h"

namespace tandem {
namespace {

constexpr std::size_t levels = 256;

/// What becomes of each level of a channel.
using LevelTable = std::array<std::uint8_t, levels>;

/// Counts of the levels of a channel.
using Histogram = std::array<std::int32_t, levels>;

/// table[level] = level_of(level as float).
template <typename LevelOf>
LevelTable make_table(LevelOf&& level_of) {
  LevelTable table;
  for (std::size_t i = 0; i < levels; ++i) table[i] = level_of(static_cast<float>(i));
  return table;
}

void apply(const LevelTable& table, Image& image) {
  for (std::uint8_t& value : image.pixels) value = table[value];
}

/// A table for each channel; only the first where there is one channel.
void apply(const std::array<LevelTable, 3>& tables, Image& image) {
  if (image.channels == 1) return apply(tables[0], image);
  for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) image.pixels[i + c] = tables[c][image.pixels[i + c]];
  }
}

std::array<Histogram, 3> histograms(const Image& image) {
  std::array<Histogram, 3> counts{};
  if (image.channels == 1) {
    for (const std::uint8_t value : image.pixels) ++counts[0][value];
    return counts;
  }
  for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) ++counts[c][image.pixels[i + c]];
  }
  return counts;
}

/// `made(histogram)` for each channel, applied.
template <typename Made>
void apply_by_histogram(Image& image, Made&& made) {
  const std::array<Histogram, 3> counts = histograms(image);
  std::array<LevelTable, 3> tables;
  for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
    tables[c] = made(counts[c]);
  }
  apply(tables, image);
}

/// Products with the weights of gray, so that a pixel costs three loads.
class GrayWeights {
 public:
  GrayWeights() {
    for (std::size_t i = 0; i < levels; ++i) {
      const auto level = static_cast<float>(i);
      red_[i] = static_cast<double>(level * 0.2989F);
      green_[i] = static_cast<double>(level) * static_cast<double>(0.587F);
      blue_[i] = static_cast<double>(level) * static_cast<double>(0.114F);
    }
  }

  /// fused(B, 0.114, fused(G, 0.587, R * 0.2989)), without its fraction.
  int gray(const std::uint8_t* pixel) const {
    const auto red_green = static_cast<float>(green_[pixel[1]] + red_[pixel[0]]);
    return static_cast<int>(static_cast<float>(blue_[pixel[2]] + static_cast<double>(red_green)));
  }

 private:
  std::array<double, levels> red_;
  std::array<double, levels> green_;
  std::array<double, levels> blue_;
};

/// row = scale * row + rest * grays.
void blend_row(std::uint8_t* __restrict row, const std::uint8_t* __restrict grays,
               std::size_t count, float scale, float rest) {
  for (std::size_t i = 0; i < count; ++i) {
    row[i] =
        to_level(fused(rest, static_cast<float>(grays[i]), static_cast<float>(row[i]) * scale));
  }
}

float mean_gray(const Image& image) {
  std::int64_t sum = 0;
  std::int64_t count = 0;
  if (image.channels == 1) {
    for (const std::uint8_t value : image.pixels) sum += value;
    count = static_cast<std::int64_t>(image.pixels.size());
  } else {
    const GrayWeights weights;
    for (std::size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
      sum += weights.gray(image.pixels.data() + i);
      ++count;
    }
  }
  return static_cast<float>(sum) / static_cast<float>(count);
}

LevelTable stretched(const Histogram& counts) {
  const auto used = [](std::int32_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), used) - counts.begin();
  const auto behind = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), used);
  const auto low = static_cast<float>(first);
  const auto range = static_cast<float>(behind - 1 - first);
  if (range <= 0.0F) return make_table(to_level);
  const float scale = range * static_cast<float>(1.0 / 255.0);
  return make_table([=](float level) { return to_level((level - low) / scale); });
}

LevelTable equalized(const Histogram& counts) {
  std::int32_t total = 0;
  std::int32_t highest = 0;  // how many pixels have the highest level
  for (const std::int32_t count : counts) {
    total += count;
    if (count > 0) highest = count;
  }
  const std::int32_t step = (total - highest) / 255;
  if (step == 0) return make_table(to_level);
  LevelTable table;
  std::int32_t below = step / 2;
  for (std::size_t i = 0; i < levels; ++i) {
    table[i] = static_cast<std::uint8_t>(std::min(below / step, 255));
    below += counts[i];
  }
  return table;
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  const auto scale = static_cast<float>(factor);
  apply(make_table([=](float level) { return to_level(level * scale); }), image);
}

void adjust_saturation(Image& image, double factor) {
  if (image.channels == 1) return;
  const GrayWeights weights;
  const auto scale = static_cast<float>(factor);
  const auto rest = static_cast<float>(1.0 - factor);
  // Row by row, with each value's gray in a row of its own, so that the blending has no gathers.
  const std::size_t values = static_cast<std::size_t>(image.width) * 3;
  std::vector<std::uint8_t> grays(values);
  for (std::size_t begin = 0; begin < image.pixels.size(); begin += values) {
    std::uint8_t* row = image.pixels.data() + begin;
    for (std::size_t i = 0; i < values; i += 3) {
      grays[i] = grays[i + 1] = grays[i + 2] = static_cast<std::uint8_t>(weights.gray(row + i));
    }
    blend_row(row, grays.data(), values, scale, rest);
  }
}

void adjust_contrast(Image& image, double factor) {
  const float mean = mean_gray(image);
  const auto scale = static_cast<float>(factor);
  const auto rest = static_cast<float>(1.0 - factor);
  apply(make_table([=](float level) { return to_level(fused(rest, mean, level * scale)); }), image);
}

void posterize(Image& image, int bits) {
  TANDEM_CHECK(bits >= 0 && bits <= 8, "{} bits of 8", bits);
  const auto mask = static_cast<std::uint8_t>(0xFF00 >> bits);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(value & mask);
}

void solarize(Image& image, float threshold) {
  // Values are whole: from the threshold on is from the next whole number on.
  const auto first = static_cast<int>(std::ceil(std::clamp(threshold, 0.0F, 256.0F)));
  for (std::uint8_t& value : image.pixels) {
    value = static_cast<std::uint8_t>(value >= first ? 255 - value : value);
  }
}

void autocontrast(Image& image) { apply_by_histogram(image, stretched); }

void equalize(Image& image) { apply_by_histogram(image, equalized); }

}  // namespace tandem
