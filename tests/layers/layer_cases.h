#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "layers/kernel_run.h"
#include "layers/layer.h"

namespace tandem {

/// One row of the table of layer test cases. A row gets every layer test: reference forward,
/// running statistics, gradients, and memory that holds rubbish.
struct LayerCase {
  std::string kind;
  std::string name;  ///< letters and digits, for the test's name
  std::string keys;  ///< the layer's keys, as TOML
  std::vector<Shape> inputs;
  /// Inputs are normal with this mean and deviation.
  float mean = 0.0F;
  float deviation = 1.0F;
  /// Largest error of results, relative to the largest element (or to one, if that is less).
  double tolerance = 2e-5;
  /// Of the batch, each with statistics of its own.
  std::int64_t groups = 1;
};

/// The row with its batch as that of so many ranks, each with statistics of its own.
LayerCase in_groups(std::int64_t groups, LayerCase row);

/// GoogleTest's way to name a row in a failure.
void PrintTo(const LayerCase& row, std::ostream* out);

/// The table: at least one row for every kind in layer_kinds().
std::span<const LayerCase> layer_cases();

/// The row's layer, made as a model file would make it; or a pair of them (conv_bn_pair.h).
LayerPtr make_layer(const LayerCase& row);

/// The keys of a conv_bn_pair: those of the maker and of the depthwise reader, which has
/// `channels`.
std::string pair_keys(const std::string& maker, std::int64_t channels, const std::string& reader);

/// Random inputs, parameters, buffers and output gradient for the row, the same ones in every run.
KernelData make_data(const LayerCase& row, const Layer& layer);

}  // namespace tandem
