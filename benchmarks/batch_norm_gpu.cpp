// Times batch normalisation with ReLU, forward, of tensors of models at 224 px in bf16: by two
// kernels, and by the one that keeps in shared memory what it can. Several tensors are normalised
// in turns, so that none is in the cache. A line of JSON for each.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "device/arena.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/tuning/kernel_timing.h"

namespace {

using namespace tandem;

struct Case {
  std::string_view model;
  std::int64_t batch, side, channels;
  bool residual = false;
};

constexpr Case cases[] = {{"resnet50", 256, 56, 64},         {"resnet50", 256, 56, 256, true},
                          {"resnet50", 256, 28, 128},        {"resnet50", 256, 28, 512, true},
                          {"resnet50", 256, 14, 256},        {"resnet50", 256, 14, 1024, true},
                          {"resnet50", 256, 7, 512},         {"resnet50", 256, 7, 2048, true},
                          {"resnet152", 64, 28, 128},        {"resnet152", 64, 14, 256},
                          {"resnet152", 64, 14, 1024, true}, {"mobilenet_v2", 256, 28, 32},
                          {"mobilenet_v2", 256, 14, 96},     {"mobilenet_v2", 256, 14, 384}};

class Trial {
 public:
  Trial(CudaContext& context, const Case& each)
      : context_(context),
        residual_(each.residual),
        shape_{.rows = each.batch * each.side * each.side, .channels = each.channels, .groups = 1},
        tiles_(make_persistent_tiles(context, shape_, DType::bf16)),
        parameters_(DeviceBuffer::zeroed(
            context, 4 * static_cast<std::size_t>(each.channels) * sizeof(float))),
        table_(context, BatchNormTable::bytes(shape_)),
        partials_(context, partial_bytes()),
        counters_(DeviceBuffer::zeroed(context, counter_bytes())) {
    constexpr std::size_t beyond_the_cache = std::size_t{1} << 30U;
    const std::size_t sets = std::clamp<std::size_t>(beyond_the_cache / (3 * bytes()), 1, 16);
    for (std::size_t i = 0; i < 3 * sets; ++i) {
      tensors_.push_back(DeviceBuffer::zeroed(context, bytes()));
    }
  }

  std::size_t bytes() const {
    return static_cast<std::size_t>(shape_.elements()) * size_of(DType::bf16);
  }
  double kept() const { return tiles_ ? tiles_->kept() : 0.0; }

  float two_kernels() {
    return time([&](const Tensor& x, const Tensor& residual, const Tensor& y) {
      batch_norm_statistics(context_, shape_, x, statistics(), work());
      batch_norm_apply(context_, shape_, x, statistics().table, {.tensor = residual},
                       Activation::relu, y);
    });
  }
  float one_kernel() {
    if (!tiles_) return -1.0F;
    return time([&](const Tensor& x, const Tensor& residual, const Tensor& y) {
      batch_norm_persistent_forward(context_, *tiles_, x, residual, Activation::relu, y, nullptr,
                                    statistics(), work());
    });
  }

 private:
  using Normalise = std::function<void(const Tensor& x, const Tensor& residual, const Tensor& y)>;

  std::size_t partial_bytes() const {
    const std::size_t two = batch_norm_partial_bytes(context_, shape_, DType::bf16);
    return tiles_ ? std::max(two, tiles_->partials() * sizeof(float)) : two;
  }
  std::size_t counter_bytes() const {
    const std::size_t two = batch_norm_counters(context_, shape_, DType::bf16);
    return (tiles_ ? std::max(two, tiles_->counters()) : two) * sizeof(unsigned);
  }
  BatchNormStatistics statistics() const {
    auto* const first = parameters_.as<float>();
    return {.weight = first,
            .bias = first + shape_.channels,
            .running_mean = first + 2 * shape_.channels,
            .running_variance = first + 3 * shape_.channels,
            .table = BatchNormTable::at(table_.data(), shape_),
            .rows = static_cast<double>(shape_.rows),
            .epsilon = 1e-5F,
            .momentum = 0.1F};
  }
  BatchNormWork work() const {
    return {.partials = partials_.data(), .counters = counters_.as<unsigned>()};
  }
  float time(const Normalise& normalise) {
    std::size_t next = 0;
    const auto tensor = [&](std::size_t i) {
      return Tensor(tensors_[i].data(), {shape_.rows, shape_.channels}, DType::bf16);
    };
    const auto one_set = [&] {
      const std::size_t first = 3 * next;
      next = (next + 1) % (tensors_.size() / 3);
      normalise(tensor(first), residual_ ? tensor(first + 1) : Tensor(), tensor(first + 2));
    };
    return time_kernels(context_, one_set, 1e9F).value_or(-1.0F);
  }

  CudaContext& context_;
  bool residual_;
  BatchNormShape shape_;
  std::optional<PersistentTiles> tiles_;
  DeviceBuffer parameters_, table_, partials_, counters_;
  std::vector<DeviceBuffer> tensors_;
};

}  // namespace

int main() {
  try {
    CudaContext context(0);
    for (const Case& each : cases) {
      Trial trial(context, each);
      std::cout << fmt::format(
                       "{{\"gpu\": \"{}\", \"model\": \"{}\", \"batch\": {}, \"side\": {}, "
                       "\"channels\": {}, \"residual\": {}, \"bytes\": {}, \"kept\": {:.2f}, "
                       "\"two_kernels_ms\": {:.4f}, \"one_kernel_ms\": {:.4f}}}",
                       context.device().name, each.model, each.batch, each.side, each.channels,
                       each.residual, trial.bytes(), trial.kept(), trial.two_kernels(),
                       trial.one_kernel())
                << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "batch_norm_gpu: " << error.what() << '\n';
    return 1;
  }
}
