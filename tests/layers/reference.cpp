#include "layers/reference.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tandem {
namespace {

constexpr std::int64_t most = 1000;

/// Calls `visit(i, j, r, s)` for every (row, column) of the output and pixel of its window that
/// lies within the input.
template <typename Visit>
void slide(const DoubleTensor& x, const Shape& y, const ConfigTable& keys, std::int64_t stride,
           Visit&& visit) {
  const std::int64_t kernel = keys.get_int("kernel", 1, most);
  const std::int64_t padding = keys.get_int_or("padding", 0, 0, most);
  const std::int64_t dilation = keys.get_int_or("dilation", 1, 1, most);
  for (std::int64_t i = 0; i < y[1]; ++i) {
    for (std::int64_t j = 0; j < y[2]; ++j) {
      for (std::int64_t r = 0; r < kernel; ++r) {
        for (std::int64_t s = 0; s < kernel; ++s) {
          const std::int64_t row = i * stride + r * dilation - padding;
          const std::int64_t column = j * stride + s * dilation - padding;
          if (row < 0 || row >= x.shape[1] || column < 0 || column >= x.shape[2]) continue;
          visit(i, j, r, s, row, column);
        }
      }
    }
  }
}

Shape slid_shape(const DoubleTensor& x, const ConfigTable& keys, std::int64_t stride,
                 std::int64_t channels) {
  const std::int64_t kernel = keys.get_int("kernel", 1, most);
  const std::int64_t padding = keys.get_int_or("padding", 0, 0, most);
  const std::int64_t dilation = keys.get_int_or("dilation", 1, 1, most);
  const auto count = [&](std::int64_t extent) {
    std::int64_t windows = 0;
    while (windows * stride + dilation * (kernel - 1) < extent + 2 * padding) ++windows;
    return windows;
  };
  return {x.shape[0], count(x.shape[1]), count(x.shape[2]), channels};
}

DoubleTensor pool(const DoubleTensor& x, const ConfigTable& keys, bool maximum) {
  const std::int64_t stride = keys.get_int_or("stride", keys.get_int("kernel", 1, most), 1, most);
  DoubleTensor y(slid_shape(x, keys, stride, x.shape[3]));
  DoubleTensor count(y.shape);
  if (maximum) std::ranges::fill(y.data, -std::numeric_limits<double>::infinity());
  slide(x, y.shape, keys, stride,
        [&](std::int64_t i, std::int64_t j, std::int64_t, std::int64_t, std::int64_t row,
            std::int64_t column) {
          for (std::int64_t n = 0; n < x.shape[0]; ++n) {
            for (std::int64_t c = 0; c < x.shape[3]; ++c) {
              const double value = x.at(n, row, column, c);
              double& out = y.at(n, i, j, c);
              out = maximum ? std::max(out, value) : out + value;
              count.at(n, i, j, c) += 1.0;
            }
          }
        });
  for (std::size_t i = 0; i < y.data.size() && !maximum; ++i) y.data[i] /= count.data[i];
  return y;
}

DoubleTensor global_average(const DoubleTensor& x, bool keep_image) {
  DoubleTensor y(keep_image ? Shape{x.shape[0], 1, 1, x.shape[3]} : Shape{x.shape[0], x.shape[3]});
  for (std::int64_t n = 0; n < x.shape[0]; ++n) {
    for (std::int64_t c = 0; c < x.shape[3]; ++c) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < x.shape[1]; ++i) {
        for (std::int64_t j = 0; j < x.shape[2]; ++j) sum += x.at(n, i, j, c);
      }
      y.data[static_cast<std::size_t>(n * x.shape[3] + c)] =
          sum / static_cast<double>(x.shape[1] * x.shape[2]);
    }
  }
  return y;
}

DoubleTensor linear(const DoubleTensor& x, const DoubleTensor& weight, const DoubleTensor* bias) {
  const auto in = static_cast<std::size_t>(weight.shape[1]);
  const auto out = static_cast<std::size_t>(weight.shape[0]);
  DoubleTensor y({x.shape[0], weight.shape[0]});
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const std::size_t n = i / out;
    const std::size_t k = i % out;
    double sum = bias == nullptr ? 0.0 : bias->data[k];
    for (std::size_t c = 0; c < in; ++c) sum += x.data[n * in + c] * weight.data[k * in + c];
    y.data[i] = sum;
  }
  return y;
}

void add_to(DoubleTensor& y, const DoubleTensor& x) {
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += x.data[i];
}

}  // namespace

DoubleTensor reference_conv2d(const DoubleTensor& x, const DoubleTensor& weight,
                              const DoubleTensor* bias, const ConfigTable& keys) {
  const std::int64_t stride = keys.get_int_or("stride", 1, 1, most);
  const std::int64_t groups = keys.get_int_or("groups", 1, 1, most);
  const std::int64_t out = keys.get_int("out", 1, most);
  const std::int64_t in = x.shape[3] / groups;
  DoubleTensor y(slid_shape(x, keys, stride, out));
  for (std::size_t i = 0; i < y.data.size() && bias != nullptr; ++i) {
    y.data[i] = bias->data[i % static_cast<std::size_t>(out)];
  }
  slide(x, y.shape, keys, stride,
        [&](std::int64_t i, std::int64_t j, std::int64_t r, std::int64_t s, std::int64_t row,
            std::int64_t column) {
          for (std::int64_t n = 0; n < x.shape[0]; ++n) {
            for (std::int64_t k = 0; k < out; ++k) {
              const std::int64_t group = k / (out / groups);
              double sum = 0.0;
              for (std::int64_t c = 0; c < in; ++c) {
                sum += x.at(n, row, column, group * in + c) * weight.at(k, r, s, c);
              }
              y.at(n, i, j, k) += sum;
            }
          }
        });
  return y;
}

DoubleTensor Reference::forward_pair(const ConfigTable& keys) {
  const auto half = [](const std::vector<DoubleTensor>& all, std::size_t which) {
    const auto size = static_cast<std::ptrdiff_t>(all.size() / 2);
    const auto begin = all.begin() + size * static_cast<std::ptrdiff_t>(which);
    return std::vector<DoubleTensor>(begin, begin + size);
  };
  Reference maker{inputs, half(parameters, 0), half(buffers, 0), training, groups};
  Reference reader{{maker.forward("conv_bn", keys.table("maker"))},
                   half(parameters, 1),
                   half(buffers, 1),
                   training,
                   groups};
  DoubleTensor y = reader.forward("conv_bn", keys.table("reader"));
  buffers = maker.buffers;
  buffers.insert(buffers.end(), reader.buffers.begin(), reader.buffers.end());
  return y;
}

DoubleTensor Reference::forward(const std::string& kind, const ConfigTable& keys) {
  const auto& x = inputs[0];
  const auto bias = [&]() { return parameters.size() > 1 ? &parameters[1] : nullptr; };
  if (kind == "conv_bn_pair") return forward_pair(keys);
  if (kind == "conv2d") return reference_conv2d(x, parameters[0], bias(), keys);
  if (kind == "linear") return linear(x, parameters[0], bias());
  if (kind == "max_pool") return pool(x, keys, true);
  if (kind == "average_pool") return pool(x, keys, false);
  if (kind == "global_average_pool") {
    return global_average(x, keys.get_bool_or("keep_image", false));
  }
  if (kind == "batch_norm") {
    return reference_batch_norm(x, parameters[0], parameters[1], buffers, training, groups, keys);
  }
  if (kind.starts_with("channel_") || kind == "shuffle_join") {
    return reference_channels(kind, inputs, keys);
  }
  DoubleTensor y = x;
  if (kind == "add") {
    add_to(y, inputs[1]);
  } else if (kind == "relu" || kind == "relu6" || kind == "silu" || kind == "sigmoid") {
    reference_activation(kind, y);
  } else if (kind == "dropout" || kind == "stochastic_depth") {
    if (training) y = reference_drop(kind, x, keys.get_real("rate", 0.0, 1.0));
  } else if (kind == "conv_bn") {
    y = reference_batch_norm(reference_conv2d(x, parameters[0], nullptr, keys), parameters[1],
                             parameters[2], buffers, training, groups, keys);
    if (keys.get_bool_or("add", false)) add_to(y, inputs[1]);
    reference_activation(keys.get_string("activation", "none"), y);
    if (keys.get_bool_or("join", false)) {
      y = reference_channels("shuffle_join", {inputs[1], y}, keys);
    }
  } else {
    throw Error("no reference for the layer '" + kind + "'");
  }
  return y;
}

}  // namespace tandem
