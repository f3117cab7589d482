#include "layers/convolution/pointwise_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/arena.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "device/memory_kernels.h"
#include "layers/tuning/plan_tuner.h"
#include "layers/tuning/plan_way.h"

namespace tandem {
namespace {

constexpr std::string_view apart_name = "apart";

std::string name_of(const PointwiseTiles& tiles) {
  return fmt::format("with statistics {}", tiles.columns);
}

std::vector<PointwiseTiles> all_tiles(const CudaContext& context, const ConvolutionProblem& problem,
                                      const BatchNormShape& shape) {
  std::vector<PointwiseTiles> all;
  for (const int columns : pointwise_columns) {
    const auto tiles =
        make_pointwise_tiles(context, problem, static_cast<int>(shape.groups), columns);
    if (tiles) all.push_back(*tiles);
  }
  return all;
}

/// Statistics and memory of all ways while they are tried: the values do not matter.
class TrialStatistics {
 public:
  TrialStatistics(CudaContext& context, const BatchNormShape& shape, DType dtype,
                  const std::vector<PointwiseTiles>& all)
      : shape_(shape),
        channel_bytes_(Arena::align(static_cast<std::size_t>(shape.channels) * sizeof(float))),
        counter_bytes_(bytes_of_counters(context, shape, dtype, all)),
        array_bytes_((2 + 2 * static_cast<std::size_t>(shape.groups)) * channel_bytes_),
        memory_(context, counter_bytes_ + array_bytes_ + BatchNormTable::bytes(shape) +
                             bytes_of_partials(context, shape, dtype, all)) {
    set_to_zero(context, memory_.data(), memory_.bytes());
  }

  BatchNormStatistics statistics() const {
    const auto channels = [&](std::size_t i) {
      return reinterpret_cast<float*>(memory_.data() + counter_bytes_ + i * channel_bytes_);
    };
    return {.weight = channels(0),
            .bias = channels(1),
            .running_mean = channels(2),
            .running_variance = channels(3),
            .running_apart = 2 * static_cast<std::int64_t>(channel_bytes_ / sizeof(float)),
            .table = BatchNormTable::at(table(), shape_),
            .rows = static_cast<double>(shape_.rows),
            .epsilon = 1e-5F,
            .momentum = 0.1F};
  }

  BatchNormWork work() const {
    return {.partials = table() + BatchNormTable::bytes(shape_),
            .counters = reinterpret_cast<unsigned*>(memory_.data())};
  }

 private:
  static std::size_t bytes_of_counters(const CudaContext& context, const BatchNormShape& shape,
                                       DType dtype, const std::vector<PointwiseTiles>& all) {
    std::size_t counters = batch_norm_counters(context, shape, dtype);
    for (const PointwiseTiles& tiles : all) counters = std::max(counters, tiles.counters());
    return Arena::align(counters * sizeof(unsigned));
  }
  static std::size_t bytes_of_partials(const CudaContext& context, const BatchNormShape& shape,
                                       DType dtype, const std::vector<PointwiseTiles>& all) {
    std::size_t bytes = batch_norm_partial_bytes(context, shape, dtype);
    for (const PointwiseTiles& tiles : all) {
      bytes = std::max(bytes, tiles.partials() * sizeof(float));
    }
    return bytes;
  }
  std::byte* table() const { return memory_.data() + counter_bytes_ + array_bytes_; }

  BatchNormShape shape_;
  std::size_t channel_bytes_;
  std::size_t counter_bytes_;
  std::size_t array_bytes_;  ///< weight, bias, and each group's running statistics
  DeviceBuffer memory_;
};

PlansToTry ways(CudaContext& context, const ConvolutionProblem& problem,
                const BatchNormShape& shape, const ConvolutionPlanPtr& plain,
                const std::vector<PointwiseTiles>& all) {
  const auto trial = std::make_shared<const TrialStatistics>(context, shape, problem.dtype(), all);
  const Shape result{problem.pixels(), problem.out_channels};
  std::vector<ConvolutionPlanPtr> plans{std::make_shared<PlanWay>(
      std::string(apart_name), plain->scratch(),
      [=, &context](const void* x, const void* weight, void* y, std::byte* scratch) {
        plain->run(x, weight, y, scratch);
        batch_norm_statistics(context, shape, {y, result, problem.dtype()}, trial->statistics(),
                              trial->work());
      })};
  for (const PointwiseTiles& tiles : all) {
    plans.push_back(std::make_shared<PlanWay>(
        name_of(tiles), 0,
        [=, &context](const void* x, const void* weight, void* y, std::byte* /*scratch*/) {
          pointwise_with_statistics(context, tiles, x, weight, y, trial->statistics(),
                                    trial->work());
        }));
  }
  return {.plans = std::move(plans)};
}

}  // namespace

std::optional<PointwiseTiles> choose_pointwise_statistics(CudaContext& context,
                                                          const ConvolutionProblem& problem,
                                                          const BatchNormShape& shape) {
  if (!may_measure()) return std::nullopt;
  const std::vector<PointwiseTiles> all = all_tiles(context, problem, shape);
  if (all.empty()) return std::nullopt;
  const ConvolutionPlanPtr plain = choose_plan(context, problem);
  const std::string name = choose_way(
      context, problem, fmt::format("{} statistics of {} groups", problem.key(), shape.groups),
      [&] { return ways(context, problem, shape, plain, all); }, std::string(apart_name));
  for (const PointwiseTiles& tiles : all) {
    if (name_of(tiles) == name) return tiles;
  }
  return std::nullopt;
}

}  // namespace tandem
