#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "layers/kernel_run.h"
#include "layers/reference.h"

namespace tandem {
namespace {

double activated(const std::string& kind, double x) {
  if (kind == "relu") return std::max(x, 0.0);
  if (kind == "relu6") return std::min(std::max(x, 0.0), 6.0);
  if (kind == "silu") return x / (1.0 + std::exp(-x));
  if (kind == "sigmoid") return 1.0 / (1.0 + std::exp(-x));
  if (kind == "none") return x;
  throw Error("no reference for the activation '" + kind + "'");
}

}  // namespace

void reference_activation(const std::string& kind, DoubleTensor& y) {
  for (double& value : y.data) value = activated(kind, value);
}

DoubleTensor reference_channels(const std::string& kind, const std::vector<DoubleTensor>& inputs,
                                const ConfigTable& keys) {
  const DoubleTensor& x = inputs[0];
  const std::int64_t first = keys.get_int_or("first", 0, 0, 1000);
  std::int64_t channels = x.shape[3];
  if (kind == "channel_slice") channels = keys.get_int("count", 1, 1000);
  if (kind == "shuffle_join") channels = 2 * inputs[1].shape[3];
  DoubleTensor y({x.shape[0], x.shape[1], x.shape[2], channels});
  for (std::int64_t n = 0; n < y.shape[0]; ++n) {
    for (std::int64_t i = 0; i < y.shape[1]; ++i) {
      for (std::int64_t j = 0; j < y.shape[2]; ++j) {
        for (std::int64_t c = 0; c < channels; ++c) {
          double& out = y.at(n, i, j, c);
          if (kind == "channel_slice") out = x.at(n, i, j, first + c);
          if (kind == "channel_scale") out = x.at(n, i, j, c) * inputs[1].at(n, 0, 0, c);
          if (kind == "shuffle_join") out = inputs[c % 2 == 0 ? 0 : 1].at(n, i, j, c / 2);
        }
      }
    }
  }
  return y;
}

/// By the definition in layers/dropout.h.
DoubleTensor reference_drop(const std::string& kind, const DoubleTensor& x, double rate) {
  DoubleTensor y = x;
  const auto batch = static_cast<std::size_t>(x.shape[0]);
  const std::size_t elements = x.data.size() / batch;
  const std::uint64_t key = test_random.seed ^ mix64(hash_text(test_layer_name));
  for (std::size_t n = 0; n < batch; ++n) {
    RandomStream random(key, test_random.first_sample + n);
    float drawn = random.uniform();
    for (std::size_t e = 0; e < elements; ++e) {
      const bool kept = drawn >= static_cast<float>(rate);
      double& value = y.data[n * elements + e];
      value = kept ? value / (1.0 - rate) : 0.0;
      if (kind == "dropout") drawn = random.uniform();
    }
  }
  return y;
}

}  // namespace tandem
