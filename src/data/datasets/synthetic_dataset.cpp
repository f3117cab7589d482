#include "data/datasets/synthetic_dataset.h"

#include <cmath>
#include <mutex>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/philox.h"

namespace tandem {
namespace {

/// A power of two; the table fits into a core's cache.
constexpr std::size_t noise_starts = std::size_t{1} << 16;
/// With the noise's mean of 31.5: mid-gray.
constexpr int middle = 96;
// Fixed point, which vectors multiply faster than floats: the high half of a product of a row's and
// a column's value is in 64ths.
constexpr float one_down = 32767.0F;
constexpr float amplitude_across = 64.0F * 64.0F * 2.0F;
constexpr float turn = 2.0F * std::numbers::pi_v<float>;

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

/// cos and sin of an angle, times `one`.
struct Turned {
  std::int16_t cosine = 0;
  std::int16_t sine = 0;

  Turned() = default;
  Turned(float angle, float one)
      : cosine(fixed_point(one * std::cos(angle))), sine(fixed_point(one * std::sin(angle))) {}
};

/// A row of an image: the waves' value there, cos(across + down), and noise.
void make_row(const Turned& down, std::span<const std::int16_t> across_cosine,
              const std::int16_t* __restrict across_sine, const std::uint8_t* __restrict noise,
              std::uint8_t* __restrict row) {
  for (std::size_t i = 0; i < across_cosine.size(); ++i) {
    const auto of_cosines = static_cast<std::int16_t>((down.cosine * across_cosine[i]) >> 16);
    const auto of_sines = static_cast<std::int16_t>((down.sine * across_sine[i]) >> 16);
    const auto value = static_cast<std::int16_t>(of_cosines - of_sines);
    row[i] = static_cast<std::uint8_t>((value >> 6) + noise[i] + middle);
  }
}

}  // namespace

struct SyntheticDataset::Waves {
  std::once_flag drawn;
  std::vector<Turned> down;                 ///< by row
  std::vector<std::int16_t> across_cosine;  ///< by column, channels interleaved
  std::vector<std::int16_t> across_sine;

  void draw(const Options& options, std::int32_t label) {
    RandomStream random = named_stream(options.seed, "synthetic class", label);
    down.clear();  // of a call that found no memory
    const float cycles_down = random.uniform(-3.0F, 3.0F) / static_cast<float>(options.height);
    for (int y = 0; y < options.height; ++y) {
      down.emplace_back(turn * cycles_down * static_cast<float>(y), one_down);
    }
    const auto channels = static_cast<std::size_t>(options.channels);
    across_cosine.resize(static_cast<std::size_t>(options.width) * channels);
    across_sine.resize(across_cosine.size());
    for (std::size_t c = 0; c < channels; ++c) {
      const float cycles_across = random.uniform(-3.0F, 3.0F) / static_cast<float>(options.width);
      const float phase = random.uniform();
      for (int x = 0; x < options.width; ++x) {
        const Turned across(turn * (phase + cycles_across * static_cast<float>(x)),
                            amplitude_across);
        const std::size_t at = static_cast<std::size_t>(x) * channels + c;
        across_cosine[at] = across.cosine;
        across_sine[at] = across.sine;
      }
    }
  }
};

SyntheticDataset::SyntheticDataset(const Options& options) : options_(options) {
  TANDEM_CHECK(options.size >= 1 && options.classes >= 1 && options.height >= 1 &&
                   options.width >= 1 && (options.channels == 1 || options.channels == 3),
               "a synthetic data set of {} samples, {} classes, {}x{}x{}", options.size,
               options.classes, options.height, options.width, options.channels);
  const auto row =
      static_cast<std::size_t>(options.width) * static_cast<std::size_t>(options.channels);
  noise_ = draw_noise(options.seed, noise_starts + row);
  waves_ = std::vector<Waves>(static_cast<std::size_t>(options.classes));
}

SyntheticDataset::~SyntheticDataset() = default;

const SyntheticDataset::Waves& SyntheticDataset::waves(std::int32_t label) const {
  Waves& waves = waves_[static_cast<std::size_t>(label)];
  std::call_once(waves.drawn, [&] { waves.draw(options_, label); });
  return waves;
}

std::int32_t SyntheticDataset::label(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < options_.size, "no sample {}", index);
  return static_cast<std::int32_t>((options_.first + index) % options_.classes);
}

Image SyntheticDataset::load(std::int64_t index) const {
  const Waves& waves = this->waves(label(index));
  RandomStream random = named_stream(options_.seed, "synthetic sample", options_.first + index);
  const auto height = static_cast<std::size_t>(options_.height);
  const std::size_t values = waves.across_cosine.size();
  Image image{options_.height, options_.width, options_.channels,
              std::vector<std::uint8_t>(height * values)};
  for (std::size_t y = 0; y < height; ++y) {
    make_row(waves.down[y], waves.across_cosine, waves.across_sine.data(),
             noise_.data() + random.next_u32() % noise_starts, image.pixels.data() + y * values);
  }
  return image;
}

std::string SyntheticDataset::describe(std::int64_t index) const {
  return fmt::format("synthetic data (seed {}), sample {}", options_.seed, options_.first + index);
}

}  // namespace tandem
