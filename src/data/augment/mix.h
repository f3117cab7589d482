#pragma once

#include <cstdint>
#include <optional>

#include "base/philox.h"
#include "data/image.h"

namespace tandem {

/// Mixing of training samples, two by two. A sample's partner is the one before it in the global
/// batch of its step (the last one, for the first); how they are mixed is drawn once for each step.
/// So are torchvision.transforms.v2.MixUp and CutMix defined on a batch, and so nothing depends on
/// ranks and micro-batches.
struct MixOptions {
  /// alpha of mixup (Zhang et al. 2018, "mixup: Beyond empirical risk minimization"): the weights
  /// of pictures and labels are lambda and 1 - lambda, lambda from Beta(alpha, alpha). 0: off.
  double mixup = 0.0;
  /// alpha of cutmix (Yun et al. 2019): a box of about the share 1 - lambda of the area shows the
  /// partner. 0: off. With both, each step takes one of the two with probability one half.
  double cutmix = 0.0;

  bool on() const { return mixup > 0.0 || cutmix > 0.0; }
};

/// How the samples of one step are mixed.
struct Mix {
  /// Of a sample's own label, 0 to 1; the partner's label has the rest. Of the pixels too, unless
  /// there is a box.
  double weight = 1.0;
  /// cutmix: where the partner is seen, alone; may be empty.
  std::optional<PixelRect> box;
};

/// The random numbers of one step's mix; `step` counts from 0 in each epoch.
RandomStream mix_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t step);

/// A value of Beta(alpha, alpha), alpha > 0: G / (G + H) with G and H of Gamma(alpha). Gamma(alpha)
/// is Gamma(alpha + 1) U^(1 / alpha), and that by Marsaglia and Tsang 2000, "A simple method for
/// generating gamma variables"; in logarithms, since U^(1 / alpha) underflows for a small alpha.
double draw_beta(double alpha, RandomStream& random);

/// The box of cutmix in a size x size picture: of sides size * sqrt(1 - lambda), halves rounded
/// down, about (x, y), cut at the edges. torchvision's CutMix.make_params.
PixelRect cutmix_box(int size, double lambda, int x, int y);

/// Draws a step's mix for pictures of size x size. Of cutmix the weight is what the box leaves of
/// the area. `options` must be on.
Mix draw_mix(const MixOptions& options, int size, RandomStream& random);

/// Mixes `partner` into `image`, both f32 of size x size x channels (HWC).
void mix_into(const Mix& mix, int size, int channels, const float* partner, float* image);

}  // namespace tandem
