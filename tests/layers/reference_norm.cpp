#include <cmath>

#include "layers/reference.h"

namespace tandem {

DoubleTensor reference_batch_norm(const DoubleTensor& x, const DoubleTensor& weight,
                                  const DoubleTensor& bias, std::vector<DoubleTensor>& running,
                                  bool training, const ConfigTable& keys) {
  const double epsilon = keys.get_real_or("epsilon", 1e-5, 0.0, 1.0);
  const double momentum = keys.get_real_or("momentum", 0.1, 0.0, 1.0);
  const std::size_t channels = weight.data.size();
  const std::size_t rows = x.data.size() / channels;
  DoubleTensor y(x.shape);
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = running[0].data[c];
    double variance = running[1].data[c];
    if (training) {
      mean = 0.0;
      for (std::size_t row = 0; row < rows; ++row) mean += x.data[row * channels + c];
      mean /= static_cast<double>(rows);
      double squares = 0.0;
      for (std::size_t row = 0; row < rows; ++row) {
        squares += std::pow(x.data[row * channels + c] - mean, 2.0);
      }
      variance = squares / static_cast<double>(rows);
      const double unbiased = squares / static_cast<double>(rows - 1);
      running[0].data[c] += momentum * (mean - running[0].data[c]);
      running[1].data[c] += momentum * (unbiased - running[1].data[c]);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      y.data[row * channels + c] =
          weight.data[c] * (x.data[row * channels + c] - mean) / std::sqrt(variance + epsilon) +
          bias.data[c];
    }
  }
  return y;
}

}  // namespace tandem
