#include "data/augment/mix.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

/// Uniform in (0, 1), 53 bits.
double open_uniform(RandomStream& random) {
  return (static_cast<double>(random.next_u64() >> 11) + 0.5) * 0x1.0p-53;
}

/// The logarithm of a value of Gamma(shape), shape >= 1.
double draw_log_gamma(double shape, RandomStream& random) {
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const auto x = static_cast<double>(random.normal());
    const double root = 1.0 + c * x;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    const double bound = 0.5 * x * x + d * (1.0 - v + std::log(v));
    if (std::log(open_uniform(random)) < bound) return std::log(d) + std::log(v);
  }
}

}  // namespace

RandomStream mix_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t step) {
  const std::uint64_t key = mix64(seed ^ mix64(hash_text("mix")));
  return RandomStream(mix64(key + static_cast<std::uint64_t>(epoch)),
                      static_cast<std::uint64_t>(step));
}

double draw_beta(double alpha, RandomStream& random) {
  TANDEM_CHECK(alpha > 0.0, "a Beta distribution of alpha {}", alpha);
  const double g = draw_log_gamma(alpha + 1.0, random);
  const double log_u = std::log(open_uniform(random));
  const double h = draw_log_gamma(alpha + 1.0, random);
  const double log_v = std::log(open_uniform(random));
  return 1.0 / (1.0 + std::exp(h - g + (log_v - log_u) / alpha));
}

PixelRect cutmix_box(int size, double lambda, int x, int y) {
  const int half = static_cast<int>(0.5 * std::sqrt(1.0 - lambda) * size);
  const int left = std::max(x - half, 0);
  const int top = std::max(y - half, 0);
  return {.top = top,
          .left = left,
          .height = std::min(y + half, size) - top,
          .width = std::min(x + half, size) - left};
}

Mix draw_mix(const MixOptions& options, int size, RandomStream& random) {
  TANDEM_CHECK(options.on(), "a mix of alphas {} and {}", options.mixup, options.cutmix);
  const bool both = options.mixup > 0.0 && options.cutmix > 0.0;
  const bool cut = both ? random.below(2) == 1 : options.cutmix > 0.0;
  const double lambda = draw_beta(cut ? options.cutmix : options.mixup, random);
  if (!cut) return {.weight = lambda, .box = {}};
  const auto x = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
  const auto y = static_cast<int>(random.below(static_cast<std::uint64_t>(size)));
  const PixelRect box = cutmix_box(size, lambda, x, y);
  const double share = static_cast<double>(std::int64_t{box.height} * box.width) /
                       static_cast<double>(std::int64_t{size} * size);
  return {.weight = 1.0 - share, .box = box};
}

void mix_into(const Mix& mix, int size, int channels, const float* partner, float* image) {
  const std::ptrdiff_t row = std::ptrdiff_t{size} * channels;
  if (!mix.box) {
    const auto own = static_cast<float>(mix.weight);
    const auto other = static_cast<float>(1.0 - mix.weight);
    for (std::ptrdiff_t i = 0; i < row * size; ++i) image[i] = own * image[i] + other * partner[i];
    return;
  }
  for (int y = mix.box->top; y < mix.box->top + mix.box->height; ++y) {
    const std::ptrdiff_t at = y * row + std::ptrdiff_t{mix.box->left} * channels;
    std::copy_n(partner + at, std::ptrdiff_t{mix.box->width} * channels, image + at);
  }
}

}  // namespace tandem
