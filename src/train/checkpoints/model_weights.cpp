#include "train/checkpoints/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace tandem {
namespace {

constexpr std::string_view batches_suffix = ".num_batches_tracked";
constexpr std::string_view mean_suffix = ".running_mean";

/// torch's shape of a tensor that lies here as `shape`: channels before rows and columns.
Shape torch_shape(const Shape& shape) {
  return shape.rank() == 4 ? Shape{shape[0], shape[3], shape[1], shape[2]} : shape;
}

/// Calls visit(index here, index in torch's order) for each element of a (K, R, S, C) tensor.
template <typename Visit>
void for_each_weight(const Shape& shape, Visit&& visit) {
  const std::int64_t area = shape[1] * shape[2];
  const std::int64_t channels = shape[3];
  for (std::int64_t k = 0; k < shape[0]; ++k) {
    const std::int64_t base = k * area * channels;
    for (std::int64_t p = 0; p < area; ++p) {
      for (std::int64_t c = 0; c < channels; ++c) {
        visit(static_cast<std::size_t>(base + p * channels + c),
              static_cast<std::size_t>(base + c * area + p));
      }
    }
  }
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 0x1.0p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  const std::uint32_t bits = exponent == 31 ? 0x7F800000U : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | bits | mantissa << 13);
}

/// The elements as f32, in the file's order. Files may hold them unaligned, hence the copies.
std::vector<float> as_floats(const NamedTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  if (tensor.dtype == DType::f32) {
    std::memcpy(values.data(), tensor.data, tensor.bytes());
    return values;
  }
  std::vector<std::uint16_t> halves(values.size());
  std::memcpy(halves.data(), tensor.data, tensor.bytes());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.dtype == DType::bf16
                    ? std::bit_cast<float>(static_cast<std::uint32_t>(halves[i]) << 16)
                    : half_to_float(halves[i]);
  }
  return values;
}

bool is_real(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

/// One tensor of the store with the place it is loaded to.
struct Target {
  std::string name;
  Tensor tensor;
};

/// In the model's order.
std::vector<Target> targets_of(const HostStore& host, const NamePrefixes& skip = {}) {
  std::vector<Target> targets;
  for (const std::size_t i : host.model_order()) {
    targets.push_back({host.parameters()[i].name, host.value(i)});
  }
  for (std::size_t i = 0; i < host.buffers().size(); ++i) {
    targets.push_back({host.buffers()[i].name, host.buffer(i)});
  }
  std::erase_if(targets, [&](const Target& target) { return skip.match(target.name); });
  return targets;
}

const NamedTensor* find(const std::vector<NamedTensor>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

/// What of the tensors does not fit the model, one line each.
std::vector<std::string> mismatches(const std::vector<NamedTensor>& tensors,
                                    const std::vector<Target>& targets, const NamePrefixes& skip) {
  std::vector<std::string> found;
  std::size_t wanted = 0;
  for (const Target& target : targets) {
    const NamedTensor* tensor = find(tensors, target.name);
    const Shape shape = torch_shape(target.tensor.shape());
    if (tensor == nullptr) {
      found.push_back(fmt::format("'{}' is missing", target.name));
    } else if (tensor->shape != shape || !is_real(tensor->dtype)) {
      found.push_back(fmt::format("'{}' is {} {}, the model has f32 {}", target.name,
                                  name_of(tensor->dtype), tensor->shape.text(), shape.text()));
    }
    wanted += tensor != nullptr ? 1 : 0;
  }
  std::size_t others = 0;
  std::string unknown;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name.ends_with(batches_suffix) || skip.match(tensor.name)) continue;
    ++others;
    const bool known = std::ranges::any_of(
        targets, [&](const Target& target) { return target.name == tensor.name; });
    if (!known && unknown.empty()) unknown = tensor.name;
  }
  if (others > wanted) found.push_back(fmt::format("'{}' is not in the model", unknown));
  return found;
}

}  // namespace

WeightsExport::WeightsExport(const ParameterStore& store, std::int64_t batches)
    : batches_(batches) {
  add(own_.emplace(store), "");
}

WeightsExport::WeightsExport(const HostStore& host, std::int64_t batches) : batches_(batches) {
  add(host, "");
}

WeightsExport WeightsExport::average(const HostStore& host) {
  WeightsExport weights;
  weights.add(host, std::string(average_prefix));
  return weights;
}

void WeightsExport::add(const HostStore& host, const std::string& prefix) {
  for (const Target& target : targets_of(host)) {
    const Shape& shape = target.tensor.shape();
    const void* data = target.tensor.raw();
    if (shape.rank() == 4) {
      const auto* here = target.tensor.data<float>();
      std::vector<float>& copy = copies_.emplace_back(target.tensor.span<float>().size());
      for_each_weight(shape,
                      [&](std::size_t ours, std::size_t torch) { copy[torch] = here[ours]; });
      data = copy.data();
    }
    tensors_.push_back({prefix + target.name, DType::f32, torch_shape(shape), data});
    if (prefix.empty() && target.name.ends_with(mean_suffix)) {
      const std::string norm = target.name.substr(0, target.name.size() - mean_suffix.size());
      tensors_.push_back({norm + std::string(batches_suffix), DType::i64, Shape(), &batches_});
    }
  }
}

bool has_average(const SafetensorsFile& file) {
  return std::ranges::any_of(file.tensors(), [](const NamedTensor& tensor) {
    return tensor.name.starts_with(average_prefix);
  });
}

std::vector<NamedTensor> weights_of(const SafetensorsFile& file, WhichWeights which) {
  const bool averaged = which == WhichWeights::averaged && has_average(file);
  std::vector<NamedTensor> weights;
  for (const NamedTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with(optimizer_prefix)) continue;
    if (tensor.name.starts_with(average_prefix)) {
      if (!averaged) continue;
      weights.push_back(tensor);
      weights.back().name.erase(0, average_prefix.size());
    } else if (!averaged || tensor.name.ends_with(batches_suffix)) {
      weights.push_back(tensor);
    }
  }
  return weights;
}

std::int64_t load_weights(const SafetensorsFile& file, ParameterStore& store,
                          const LoadOptions& options) {
  const std::vector<NamedTensor> tensors = weights_of(file, options.which);
  HostStore host(store);
  const std::vector<Target> targets = targets_of(host, options.skip);
  std::vector<std::string> wrong = mismatches(tensors, targets, options.skip);
  if (!wrong.empty()) {
    constexpr std::size_t shown = 5;
    const std::size_t count = wrong.size();
    if (count > shown) {
      wrong.resize(shown);
      wrong.push_back(fmt::format("and {} more", count - shown));
    }
    input_error("{} does not fit the model: {}; {}", file.path().string(), join(wrong, "; "),
                options.advice);
  }
  for (const Target& target : targets) {
    const std::vector<float> values = as_floats(*find(tensors, target.name));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      input_error("{}: '{}' holds values that are not finite; give other weights",
                  file.path().string(), target.name);
    }
    auto* here = target.tensor.data<float>();
    if (target.tensor.shape().rank() == 4) {
      for_each_weight(target.tensor.shape(),
                      [&](std::size_t ours, std::size_t torch) { here[ours] = values[torch]; });
    } else {
      std::memcpy(here, values.data(), target.tensor.bytes());
    }
  }
  host.write_back(store);
  for (const NamedTensor& tensor : tensors) {
    if (!tensor.name.ends_with(batches_suffix) || tensor.dtype != DType::i64) continue;
    std::int64_t batches = 0;
    if (tensor.bytes() == sizeof batches) std::memcpy(&batches, tensor.data, sizeof batches);
    return batches;
  }
  return 0;
}

}  // namespace tandem
