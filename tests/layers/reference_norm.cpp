#include <cmath>

#include "layers/kernel_run.h"
#include "layers/reference.h"

namespace tandem {

namespace {

struct Moments {
  double mean;
  double variance;  ///< biased
};

/// Of the elements of channel c in rows [begin, end).
Moments moments_of(const DoubleTensor& x, std::size_t channels, std::size_t c, std::size_t begin,
                   std::size_t end) {
  const auto rows = static_cast<double>(end - begin);
  Moments moments{0.0, 0.0};
  for (std::size_t row = begin; row < end; ++row) moments.mean += x.data[row * channels + c] / rows;
  for (std::size_t row = begin; row < end; ++row) {
    moments.variance += std::pow(x.data[row * channels + c] - moments.mean, 2.0) / rows;
  }
  return moments;
}

/// Those of so many ranks, one's behind the other's.
DoubleTensor of_ranks(const DoubleTensor& first, std::size_t count) {
  const std::size_t size = first.data.size();
  DoubleTensor all({static_cast<std::int64_t>(count * size)});
  for (std::size_t i = 0; i < all.data.size(); ++i) {
    all.data[i] = static_cast<double>(buffer_of_rank(static_cast<float>(first.data[i % size]),
                                                     static_cast<std::int64_t>(i / size)));
  }
  return all;
}

}  // namespace

DoubleTensor reference_batch_norm(const DoubleTensor& x, const DoubleTensor& weight,
                                  const DoubleTensor& bias, std::vector<DoubleTensor>& running,
                                  bool training, std::size_t groups, const ConfigTable& keys) {
  const double epsilon = keys.get_real_or("epsilon", 1e-5, 0.0, 1.0);
  const double momentum = keys.get_real_or("momentum", 0.1, 0.0, 1.0);
  const std::size_t channels = weight.data.size();
  const std::size_t rows = x.data.size() / channels / groups;
  DoubleTensor y(x.shape);
  for (DoubleTensor& each : running) {
    if (training && each.data.size() == channels) each = of_ranks(each, groups);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const Moments stored{running[0].data[c], running[1].data[c]};
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t begin = group * rows;
      const std::size_t end = begin + rows;
      const Moments used = training ? moments_of(x, channels, c, begin, end) : stored;
      if (training) {
        const double unbiased =
            used.variance * static_cast<double>(rows) / static_cast<double>(rows - 1);
        double& mean = running[0].data[group * channels + c];
        double& variance = running[1].data[group * channels + c];
        mean += momentum * (used.mean - mean);
        variance += momentum * (unbiased - variance);
      }
      for (std::size_t row = begin; row < end; ++row) {
        y.data[row * channels + c] = weight.data[c] * (x.data[row * channels + c] - used.mean) /
                                         std::sqrt(used.variance + epsilon) +
                                     bias.data[c];
      }
    }
  }
  return y;
}

}  // namespace tandem
