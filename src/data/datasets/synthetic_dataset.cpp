#include "data/datasets/synthetic_dataset.h"

#include <cmath>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/philox.h"

namespace tandem {
namespace {

/// A power of two; the table fits into a core's cache.
constexpr std::size_t noise_starts = std::size_t{1} << 16;
/// With the noise's mean of 32: mid-gray.
constexpr int middle = 96;
// Fixed point: the high half of a product of a row's and a column's value is in 64ths.
constexpr float one_down = 32767.0F;
constexpr float amplitude_across = 64.0F * 64.0F * 2.0F;

RandomStream named_stream(std::uint64_t seed, std::string_view name, std::int64_t id) {
  return RandomStream(seed ^ mix64(hash_text(name)), static_cast<std::uint64_t>(id));
}

/// `count` values below 64.
std::vector<std::uint8_t> draw_noise(std::uint64_t seed, std::size_t count) {
  RandomStream random = named_stream(seed, "synthetic noise", 0);
  std::vector<std::uint8_t> noise(count);
  for (std::uint8_t& value : noise) value = static_cast<std::uint8_t>(random.next_u32() >> 26);
  return noise;
}

std::int16_t fixed_point(float value) { return static_cast<std::int16_t>(std::lround(value)); }

/// A row of an image: the waves' value there, and noise.
void make_row(std::int16_t cosine, std::int16_t sine, std::span<const std::int16_t> across_cosine,
              const std::int16_t* __restrict across_sine, const std::uint8_t* __restrict noise,
              std::uint8_t* __restrict row) {
  for (std::size_t i = 0; i < across_cosine.size(); ++i) {
    const auto of_cosines = static_cast<std::int16_t>((cosine * across_cosine[i]) >> 16);
    const auto of_sines = static_cast<std::int16_t>((sine * across_sine[i]) >> 16);
    const auto value = static_cast<std::int16_t>(of_cosines - of_sines);
    row[i] = static_cast<std::uint8_t>((value >> 6) + noise[i] + middle);
  }
}

}  // namespace

SyntheticDataset::SyntheticDataset(const Options& options) : options_(options) {
  TANDEM_CHECK(options.size >= 1 && options.classes >= 1 && options.height >= 1 &&
                   options.width >= 1 && (options.channels == 1 || options.channels == 3),
               "a synthetic data set of {} samples, {} classes, {}x{}x{}", options.size,
               options.classes, options.height, options.width, options.channels);
  const auto row =
      static_cast<std::size_t>(options.width) * static_cast<std::size_t>(options.channels);
  noise_ = draw_noise(options.seed, noise_starts + row);
  for (int label = 0; label < options.classes; ++label) waves_.push_back(draw_waves(label));
}

SyntheticDataset::Waves SyntheticDataset::draw_waves(std::int32_t label) const {
  RandomStream random = named_stream(options_.seed, "synthetic class", label);
  constexpr float turn = 2.0F * std::numbers::pi_v<float>;
  Waves waves;
  const float cycles_down = random.uniform(-3.0F, 3.0F);
  for (int y = 0; y < options_.height; ++y) {
    const float angle =
        turn * cycles_down * static_cast<float>(y) / static_cast<float>(options_.height);
    waves.down_cosine.push_back(fixed_point(one_down * std::cos(angle)));
    waves.down_sine.push_back(fixed_point(one_down * std::sin(angle)));
  }
  const auto channels = static_cast<std::size_t>(options_.channels);
  waves.across_cosine.resize(static_cast<std::size_t>(options_.width) * channels);
  waves.across_sine.resize(waves.across_cosine.size());
  for (std::size_t c = 0; c < channels; ++c) {
    const float cycles_across = random.uniform(-3.0F, 3.0F);
    const float phase = random.uniform();
    for (int x = 0; x < options_.width; ++x) {
      const float angle = turn * (phase + cycles_across * static_cast<float>(x) /
                                              static_cast<float>(options_.width));
      const std::size_t at = static_cast<std::size_t>(x) * channels + c;
      waves.across_cosine[at] = fixed_point(amplitude_across * std::cos(angle));
      waves.across_sine[at] = fixed_point(amplitude_across * std::sin(angle));
    }
  }
  return waves;
}

std::int32_t SyntheticDataset::label(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < options_.size, "no sample {}", index);
  return static_cast<std::int32_t>((options_.first + index) % options_.classes);
}

Image SyntheticDataset::load(std::int64_t index) const {
  const Waves& waves = waves_[static_cast<std::size_t>(label(index))];
  RandomStream random = named_stream(options_.seed, "synthetic sample", options_.first + index);
  // An odd step passes through all places of the table: no two rows of an image are the same.
  std::size_t start = random.next_u32();
  const std::size_t step = random.next_u32() | 1U;
  const auto height = static_cast<std::size_t>(options_.height);
  const std::size_t values = waves.across_cosine.size();
  Image image{options_.height, options_.width, options_.channels,
              std::vector<std::uint8_t>(height * values)};
  for (std::size_t y = 0; y < height; ++y, start += step) {
    make_row(waves.down_cosine[y], waves.down_sine[y], waves.across_cosine,
             waves.across_sine.data(), noise_.data() + start % noise_starts,
             image.pixels.data() + y * values);
  }
  return image;
}

std::string SyntheticDataset::describe(std::int64_t index) const {
  return fmt::format("synthetic data (seed {}), sample {}", options_.seed, options_.first + index);
}

}  // namespace tandem
