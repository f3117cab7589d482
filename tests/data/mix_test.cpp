#include "data/augment/mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

namespace tandem::testing {
namespace {

std::vector<double> betas(double alpha, int count) {
  RandomStream random(11, "betas");
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(draw_beta(alpha, random));
  return values;
}

// E[x^k] of Beta(a, a) is the product of (a + r) / (2a + r) over r < k; the standard error of a
// mean of n values of x^k is the root of (E[x^2k] - E[x^k]^2) / n.
TEST(Beta, MomentsAreTheDistributions) {
  constexpr int count = 40000;
  for (const double alpha : {0.02, 0.1, 0.2, 0.4, 1.0, 2.0, 8.0, 200.0}) {
    const std::vector<double> values = betas(alpha, count);
    const auto moment = [&](int k) {
      double product = 1.0;
      for (int r = 0; r < k; ++r) product *= (alpha + r) / (2.0 * alpha + r);
      return product;
    };
    for (int k = 1; k <= 4; ++k) {
      double sum = 0.0;
      for (const double value : values) sum += std::pow(value, k);
      const double error = std::sqrt((moment(2 * k) - moment(k) * moment(k)) / count);
      EXPECT_NEAR(sum / count, moment(k), 4.0 * error) << alpha << " " << k;
    }
    double variance = 0.0;
    for (const double value : values) variance += (value - 0.5) * (value - 0.5) / count;
    const double wanted = 1.0 / (4.0 * (2.0 * alpha + 1.0));
    EXPECT_NEAR(variance, wanted, 0.03 * wanted) << alpha;
  }
}

// The largest distance of the empirical from the true distribution function (Kolmogorov): above
// 1.95 / sqrt(n) once in a thousand times.
TEST(Beta, QuantilesAreTheDistributions) {
  struct Known {
    double alpha;
    std::function<double(double)> below;
  };
  const std::vector<Known> all{
      {0.5, [](double x) { return 2.0 / std::numbers::pi * std::asin(std::sqrt(x)); }},
      {1.0, [](double x) { return x; }},
      {2.0, [](double x) { return x * x * (3.0 - 2.0 * x); }},
      {3.0, [](double x) { return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x); }}};
  constexpr int count = 40000;
  for (const Known& known : all) {
    std::vector<double> values = betas(known.alpha, count);
    std::sort(values.begin(), values.end());
    double furthest = 0.0;
    for (int i = 0; i < count; ++i) {
      const double below = known.below(values[static_cast<std::size_t>(i)]);
      furthest = std::max({furthest, std::abs(below - static_cast<double>(i) / count),
                           std::abs(below - (i + 1.0) / count)});
    }
    EXPECT_LT(furthest, 1.95 / std::sqrt(count)) << known.alpha;
  }
}

TEST(Beta, StaysSoundForAnyAlpha) {
  for (const double alpha : {1e-300, 1e-9, 1e-3}) {
    int above = 0;
    for (const double value : betas(alpha, 1000)) {
      ASSERT_TRUE(value >= 0.0 && value <= 1.0) << value;
      EXPECT_LT(std::min(value, 1.0 - value), alpha < 1e-6 ? 1e-12 : 0.5);
      above += value > 0.5 ? 1 : 0;
    }
    EXPECT_NEAR(above, 500, 70) << alpha;
  }
  for (const double value : betas(1e6, 1000)) EXPECT_NEAR(value, 0.5, 0.002);
}

/// torchvision's CutMix.make_params, in its own words.
struct Corners {
  int x1, y1, x2, y2;
  bool operator==(const Corners&) const = default;
};
Corners corners(int w, int h, double lam, int r_x, int r_y) {
  const double r = 0.5 * std::sqrt(1.0 - lam);
  const int r_w_half = static_cast<int>(r * w);
  const int r_h_half = static_cast<int>(r * h);
  return {std::clamp(r_x - r_w_half, 0, w), std::clamp(r_y - r_h_half, 0, h),
          std::clamp(r_x + r_w_half, 0, w), std::clamp(r_y + r_h_half, 0, h)};
}

TEST(Cutmix, BoxesAreTorchvisions) {
  for (const int size : {1, 2, 7, 8, 32}) {
    for (int x = 0; x < size; ++x) {
      for (int y = 0; y < size; y += 3) {
        for (const double lambda : {0.0, 0.1, 0.25, 0.5, 0.77, 0.9375, 0.999, 1.0}) {
          const Corners wanted = corners(size, size, lambda, x, y);
          EXPECT_EQ(cutmix_box(size, lambda, x, y), (PixelRect{.top = wanted.y1,
                                                               .left = wanted.x1,
                                                               .height = wanted.y2 - wanted.y1,
                                                               .width = wanted.x2 - wanted.x1}))
              << size << " " << x << " " << y << " " << lambda;
        }
      }
    }
  }
}

// What torchvision 0.29.2's CutMix.make_params itself gave, made to draw these lambdas and centres:
//   cut = v2.CutMix(num_classes=2); cut._dist = mock.Mock(sample=lambda shape: lam)
//   with mock.patch("torch.randint", side_effect=[torch.tensor([x]), torch.tensor([y])]):
//     cut.make_params([torch.zeros(2, 3, size, size)])["box"]  # (x1, y1, x2, y2)
TEST(Cutmix, BoxesAreThoseThatTorchvisionGave) {
  struct Known {
    int size;
    double lambda;
    int x, y;
    Corners box;
  };
  for (const Known& known : {Known{32, 0.5, 16, 16, {5, 5, 27, 27}},
                             {32, 0.77, 3, 30, {0, 23, 10, 32}},
                             {32, 0.1, 31, 0, {16, 0, 32, 15}},
                             {28, 0.9, 0, 13, {0, 9, 4, 17}},
                             {224, 0.25, 200, 100, {104, 4, 224, 196}},
                             {7, 0.6, 6, 2, {4, 0, 7, 4}},
                             {224, 0.9999, 50, 60, {49, 59, 51, 61}}}) {
    const PixelRect box = cutmix_box(known.size, known.lambda, known.x, known.y);
    const Corners got{box.left, box.top, box.left + box.width, box.top + box.height};
    EXPECT_EQ(got, known.box) << known.size << " " << known.lambda;
  }
}

TEST(Mix, StepsDrawByTheirName) {
  const MixOptions options{.mixup = 0.7};
  const auto weight = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t step) {
    RandomStream random = mix_stream(seed, epoch, step);
    return draw_mix(options, 8, random).weight;
  };
  EXPECT_EQ(weight(1, 2, 3), weight(1, 2, 3));
  std::vector<double> weights{weight(1, 2, 3), weight(2, 2, 3), weight(1, 3, 3), weight(1, 2, 4),
                              weight(1, 3, 2)};
  std::sort(weights.begin(), weights.end());
  EXPECT_EQ(std::unique(weights.begin(), weights.end()), weights.end());
}

TEST(Mix, TakesEitherKindHalfOfTheTime) {
  constexpr int steps = 4000;
  constexpr int size = 16;
  int cuts = 0;
  double blended = 0.0;
  std::array<double, 2> centre{};
  for (int step = 0; step < steps; ++step) {
    RandomStream random = mix_stream(5, 0, step);
    const Mix mix = draw_mix({.mixup = 8.0, .cutmix = 1.0}, size, random);
    if (!mix.box) {
      blended += mix.weight;
      EXPECT_NEAR(mix.weight, 0.5, 0.45);
      continue;
    }
    ++cuts;
    const PixelRect& box = *mix.box;
    EXPECT_TRUE(box.top >= 0 && box.left >= 0 && box.height >= 0 && box.width >= 0);
    EXPECT_LE(box.top + box.height, size);
    EXPECT_LE(box.left + box.width, size);
    EXPECT_EQ(mix.weight, 1.0 - box.height * box.width / 256.0);
    centre[0] += box.left + 0.5 * box.width;
    centre[1] += box.top + 0.5 * box.height;
  }
  EXPECT_NEAR(cuts, 0.5 * steps, 130);
  EXPECT_NEAR(blended / (steps - cuts), 0.5, 0.01);
  // Places are uniform in 0 .. 15; the cut at the edges moves single boxes inwards, not their mean.
  for (const double sum : centre) EXPECT_NEAR(sum / cuts, 7.5, 0.5);
}

TEST(Mix, OneKindAloneIsTakenAlways) {
  for (int step = 0; step < 50; ++step) {
    RandomStream first = mix_stream(5, 0, step);
    EXPECT_FALSE(draw_mix({.mixup = 0.2}, 16, first).box);
    RandomStream second = mix_stream(5, 0, step);
    EXPECT_TRUE(draw_mix({.cutmix = 0.2}, 16, second).box);
  }
}

}  // namespace
}  // namespace tandem::testing
