#include "layers/normalisation/batch_norm_choice_cuda.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/arena.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "layers/normalisation/batch_norm_cuda.h"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/tuning/kernel_timing.h"
#include "layers/tuning/plan_tuner.h"

namespace tandem {
namespace {

/// What another way must gain on that by size: this share of its time, and so many milliseconds.
constexpr float least_gain = 0.02F;
constexpr float least_gain_ms = 2e-4F;

/// Tensors of zeros to normalise in different ways: the values do not matter.
class BatchNormTrial {
 public:
  BatchNormTrial(CudaContext& context, const BatchNormSetup& setup)
      : context_(context),
        setup_(setup),
        x_(tensor(1)),
        second_(setup.use == SecondInput::none ? Tensor() : tensor(1)),
        second_gradient_(setup.use == SecondInput::none ? Tensor() : tensor(1)),
        y_(setup.defers ? Tensor() : tensor(result_width())),
        gradient_(tensor(result_width())),
        input_gradient_(setup.use == SecondInput::joined ? tensor(1) : gradient_),
        parameters_(
            memory((4 + 2 * static_cast<std::size_t>(setup.shape.groups)) * channel_bytes())),
        second_table_(setup.second_is_left ? memory(BatchNormTable::bytes(setup.shape)) : nullptr),
        beyond_the_cache_(context, 2 * context.device().l2_bytes) {
    refreshing_ = time_kernels(
                      context_, [this] { refresh_all(); }, no_limit)
                      .value_or(0.0F);
  }

  /// Milliseconds, as PlanCandidate::time.
  std::optional<float> time(const BatchNormWay& way, float best) {
    BatchNormSetup setup = setup_;
    setup.way = way;
    CudaBatchNorm norm(context_, setup);
    const DeviceBuffer saved(context_, std::max<std::size_t>(norm.saved(), 1));
    const DeviceBuffer scratch(
        context_, std::max({norm.forward_scratch(), norm.backward_scratch(), std::size_t{1}}));
    const auto ms = time_kernels(
        context_, [&] { enqueue(norm, saved.data(), scratch.data()); }, best + refreshing_);
    if (!ms) return std::nullopt;
    return std::max(*ms - refreshing_, 0.0F);
  }

 private:
  static constexpr float no_limit = std::numeric_limits<float>::infinity();

  std::int64_t result_width() const { return setup_.use == SecondInput::joined ? 2 : 1; }
  std::size_t channel_bytes() const {
    return Arena::align(static_cast<std::size_t>(setup_.shape.channels) * sizeof(float));
  }
  std::byte* memory(std::size_t bytes) {
    return buffers_.emplace_back(DeviceBuffer::zeroed(context_, bytes)).data();
  }
  /// Of so many times the channels.
  Tensor tensor(std::int64_t width) {
    const BatchNormShape& shape = setup_.shape;
    const Shape of{shape.rows * shape.groups, shape.channels * width};
    return {memory(Tensor(nullptr, of, setup_.dtype).bytes()), of, setup_.dtype};
  }
  Tensor channels(std::size_t i) const {
    return {parameters_ + i * channel_bytes(), {setup_.shape.channels}, DType::f32};
  }

  /// As a tensor is in a step that was just written, with nothing else of what follows in the
  /// cache.
  void refresh(const Tensor& tensor) {
    enqueue_zeros(beyond_the_cache_.data(), beyond_the_cache_.bytes());
    enqueue_zeros(tensor.raw(), tensor.bytes());
  }
  void enqueue_zeros(void* memory, std::size_t bytes) {
    TANDEM_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, context_.stream()));
  }
  void refresh_all() {
    refresh(x_);
    refresh(gradient_);
  }

  void enqueue(CudaBatchNorm& norm, std::byte* saved, std::byte* scratch) {
    refresh(x_);
    InputNorm second_norm{};
    if (second_table_ != nullptr) {
      second_norm = input_norm_of({.activation = Activation::none, .groups = setup_.shape.groups},
                                  second_table_, setup_.shape.channels, x_.shape()[0]);
    }
    norm.forward({.x = x_,
                  .second = second_,
                  .second_norm = second_norm,
                  .y = y_,
                  .weight = channels(0),
                  .bias = channels(1),
                  .running_mean = channels(4),
                  .running_variance = channels(5),
                  .running_apart = 2 * static_cast<std::int64_t>(channel_bytes() / sizeof(float)),
                  .saved = saved,
                  .scratch = scratch});
    refresh(gradient_);
    norm.backward({.x = x_,
                   .y = y_,
                   .output_gradient = gradient_,
                   .second_gradient = second_gradient_,
                   .input_gradient = input_gradient_,
                   .weight_gradient = channels(2),
                   .bias_gradient = channels(3),
                   .saved = saved,
                   .scratch = scratch});
  }

  CudaContext& context_;
  BatchNormSetup setup_;
  std::vector<DeviceBuffer> buffers_;  // before what lies in them
  Tensor x_;
  Tensor second_;
  Tensor second_gradient_;
  Tensor y_;
  Tensor gradient_;
  Tensor input_gradient_;
  std::byte* parameters_;
  std::byte* second_table_;
  DeviceBuffer beyond_the_cache_;
  float refreshing_ = 0.0F;  ///< milliseconds, of a forward and a backward pass's
};

std::string key_of(const BatchNormSetup& setup) {
  std::string key = fmt::format("norm {}x{}x{} {}", setup.shape.groups, setup.shape.rows,
                                setup.shape.channels, name_of(setup.dtype));
  if (setup.use == SecondInput::residual) key += setup.second_is_left ? " left sum" : " sum";
  if (setup.use == SecondInput::joined) key += " join";
  key += fmt::format(" {}", name_of(setup.activation));
  return setup.defers ? key + " deferred" : key;
}

/// The way by size first. None is asked for faults: tests compare the results of all.
std::vector<PlanCandidate> candidates(CudaContext& context, const BatchNormSetup& setup,
                                      const std::vector<BatchNormWay>& ways) {
  const auto trial = std::make_shared<BatchNormTrial>(context, setup);
  std::vector<PlanCandidate> made;
  for (const BatchNormWay& way : ways) {
    const bool by_size = way == ways.front();
    made.push_back({.name = name_of(way),
                    .time = [=](float best) -> std::optional<float> {
                      const auto ms = trial->time(way, best);
                      if (!ms || by_size) return ms;
                      return *ms * (1.0F + least_gain) + least_gain_ms;
                    },
                    .fault = [] { return std::string(); }});
  }
  return made;
}

}  // namespace

BatchNormWay choose_batch_norm_way(CudaContext& context, const BatchNormSetup& setup,
                                   NormKernels which) {
  const std::vector<BatchNormWay> ways = batch_norm_ways(context, setup);
  if (which == NormKernels::by_size || !may_measure() || ways.size() == 1) return ways.front();
  const std::string name = choose_way(
      context, key_of(setup), [&] { return candidates(context, setup, ways); },
      name_of(ways.front()));
  const auto chosen =
      std::ranges::find(ways, name, [](const BatchNormWay& way) { return name_of(way); });
  return chosen == ways.end() ? ways.front() : *chosen;
}

}  // namespace tandem
