#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "device/any_context.h"
#include "tensor/host_tensor.h"

namespace tandem {

/// On a device too.
inline std::vector<float> values_of(AnyContext& context, const Tensor& tensor) {
  const HostTensor host(context, tensor);
  const std::span<const float> values = host.tensor().span<float>();
  return {values.begin(), values.end()};
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The norm of the difference over the norm of `expected`; infinite where their sizes differ.
inline double distance(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double squares = 0.0;
  double scale = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double x = found[i];
    const double y = expected[i];
    squares += (x - y) * (x - y);
    scale += y * y;
  }
  return squares == 0.0 ? 0.0 : std::sqrt(squares / scale);
}

}  // namespace tandem
