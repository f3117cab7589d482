#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_table.h"
#include "tensor/shape.h"

namespace tandem {

/// A tensor of doubles that owns its elements.
struct DoubleTensor {
  Shape shape;
  std::vector<double> data;

  explicit DoubleTensor(const Shape& extents = {1})
      : shape(extents), data(static_cast<std::size_t>(extents.elements()), 0.0) {}
  /// Element of an image (N, H, W, C).
  double& at(std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
    return data[static_cast<std::size_t>(((n * shape[1] + i) * shape[2] + j) * shape[3] + c)];
  }
  double at(std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) const {
    return data[static_cast<std::size_t>(((n * shape[1] + i) * shape[2] + j) * shape[3] + c)];
  }
};

/// What a layer computes, written down naively in double precision, in the order of the layer's
/// own inputs, parameters and buffers.
struct Reference {
  std::vector<DoubleTensor> inputs{};
  std::vector<DoubleTensor> parameters{};
  std::vector<DoubleTensor> buffers{};  ///< running statistics; updated by a forward in training
  bool training = false;
  /// Equal parts of the batch, one behind the other, that are normalised each by its own
  /// statistics. A forward in training leaves running ones of each part, one's behind the other's.
  std::size_t groups = 1;

  /// The output of a layer of `kind` with these keys.
  DoubleTensor forward(const std::string& kind, const ConfigTable& keys);
  /// Of a conv_bn_pair: one conv_bn behind the other.
  DoubleTensor forward_pair(const ConfigTable& keys);
};

/// Parts, each by its textbook definition.
DoubleTensor reference_conv2d(const DoubleTensor& x, const DoubleTensor& weight,
                              const DoubleTensor* bias, const ConfigTable& keys);
/// `kind` one of relu, relu6, silu, sigmoid and none.
void reference_activation(const std::string& kind, DoubleTensor& y);
DoubleTensor reference_channels(const std::string& kind, const std::vector<DoubleTensor>& inputs,
                                const ConfigTable& keys);
DoubleTensor reference_drop(const std::string& kind, const DoubleTensor& x, double rate);
DoubleTensor reference_batch_norm(const DoubleTensor& x, const DoubleTensor& weight,
                                  const DoubleTensor& bias, std::vector<DoubleTensor>& running,
                                  bool training, std::size_t groups, const ConfigTable& keys);

}  // namespace tandem
