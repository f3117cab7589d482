#include "data/datasets/synthetic_dataset.h"

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/philox.h"

namespace tandem {
namespace {

RandomStream named_stream(std::uint64_t seed, std::string_view name, std::int64_t id) {
  return RandomStream(seed ^ mix64(hash_text(name)), static_cast<std::uint64_t>(id));
}

/// cos(a x + p) and sin(a x + p) for every x: a wave over the plane is then two products a pixel.
struct Ramp {
  std::vector<float> cosine;
  std::vector<float> sine;

  Ramp(int extent, float cycles, float phase) {
    for (int x = 0; x < extent; ++x) {
      const float angle = 2.0F * std::numbers::pi_v<float> *
                          (cycles * static_cast<float>(x) / static_cast<float>(extent) + phase);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
};

}  // namespace

SyntheticDataset::SyntheticDataset(const Options& options) : options_(options) {
  TANDEM_CHECK(options.size >= 1 && options.classes >= 1 && options.height >= 1 &&
                   options.width >= 1 && (options.channels == 1 || options.channels == 3),
               "a synthetic data set of {} samples, {} classes, {}x{}x{}", options.size,
               options.classes, options.height, options.width, options.channels);
}

std::int32_t SyntheticDataset::label(std::int64_t index) const {
  TANDEM_CHECK(index >= 0 && index < options_.size, "no sample {}", index);
  return static_cast<std::int32_t>((options_.first + index) % options_.classes);
}

Image SyntheticDataset::load(std::int64_t index) const {
  RandomStream wave = named_stream(options_.seed, "synthetic class", label(index));
  RandomStream noise = named_stream(options_.seed, "synthetic sample", options_.first + index);
  const auto height = static_cast<std::size_t>(options_.height);
  const auto width = static_cast<std::size_t>(options_.width);
  const auto channels = static_cast<std::size_t>(options_.channels);
  Image image{options_.height, options_.width, options_.channels,
              std::vector<std::uint8_t>(height * width * channels)};
  for (std::uint8_t& pixel : image.pixels) {
    pixel = static_cast<std::uint8_t>(noise.next_u32() >> 26);
  }
  constexpr float amplitude = 64.0F;
  constexpr float middle = 96.0F;  // with the noise's mean of 32: mid-gray
  for (std::size_t c = 0; c < channels; ++c) {
    const float cycles_down = wave.uniform(-3.0F, 3.0F);
    const float cycles_across = wave.uniform(-3.0F, 3.0F);
    const Ramp down(options_.height, cycles_down, wave.uniform());
    const Ramp across(options_.width, cycles_across, 0.0F);
    for (std::size_t y = 0; y < height; ++y) {
      std::uint8_t* row = image.pixels.data() + y * width * channels + c;
      for (std::size_t x = 0; x < width; ++x) {
        // cos(a + b)
        const float value = down.cosine[y] * across.cosine[x] - down.sine[y] * across.sine[x];
        const float sum = static_cast<float>(row[x * channels]) + middle + amplitude * value;
        row[x * channels] = static_cast<std::uint8_t>(sum);
      }
    }
  }
  return image;
}

std::string SyntheticDataset::describe(std::int64_t index) const {
  return fmt::format("synthetic data (seed {}), sample {}", options_.seed, options_.first + index);
}

}  // namespace tandem
